//! Tables of typed columns for other programs, as CSV (RFC 4180) or Apache Parquet.
//!
//! Rule: the name of the file decides: one that ends in `.parquet` is Parquet, any other is CSV. An
//! empty cell of CSV is a null in Parquet. CSV may round a number; Parquet has all of its digits.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use parquet::basic::{Compression, LogicalType, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

/// What a table's file is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableFormat {
    Csv,
    Parquet,
}

impl TableFormat {
    /// Returns the format of a file, by its name.
    pub fn of(file: &Path) -> Self {
        match file.extension() {
            Some(extension) if extension == "parquet" => Self::Parquet,
            _ => Self::Csv,
        }
    }
}

/// A table under construction: a row for each of `rows`.
pub struct DataTable<'r, R> {
    rows: &'r [R],
    columns: Vec<Column<'r>>,
}

struct Column<'r> {
    name: Cow<'r, str>,
    values: Values<'r>,
}

/// The values of a column, by row.
enum Values<'r> {
    Text(Vec<Cow<'r, str>>),
    Integers(Vec<Option<u64>>),
    /// With the decimals of CSV; `None` for as many as identify the value.
    Floats(Vec<Option<f64>>, Option<usize>),
}

impl<'r, R> DataTable<'r, R> {
    pub fn new(rows: &'r [R]) -> Self {
        Self { rows, columns: Vec::new() }
    }

    /// Adds a column of text; empty text is a null.
    pub fn text<T: Into<Cow<'r, str>>>(
        self,
        name: impl Into<Cow<'r, str>>,
        value: impl Fn(&'r R) -> T,
    ) -> Self {
        let values = self.rows.iter().map(|row| value(row).into()).collect();
        self.with(name, Values::Text(values))
    }

    /// Adds a column of whole numbers.
    pub fn integers<T: Into<Option<u64>>>(
        self,
        name: impl Into<Cow<'r, str>>,
        value: impl Fn(&'r R) -> T,
    ) -> Self {
        let values = self.rows.iter().map(|row| value(row).into()).collect();
        self.with(name, Values::Integers(values))
    }

    /// Adds a column of numbers, with this many decimals in CSV; `None` for as many as identify the
    /// value.
    pub fn floats<T: Into<Option<f64>>>(
        self,
        name: impl Into<Cow<'r, str>>,
        decimals: impl Into<Option<usize>>,
        value: impl Fn(&'r R) -> T,
    ) -> Self {
        let values = self.rows.iter().map(|row| value(row).into()).collect();
        self.with(name, Values::Floats(values, decimals.into()))
    }

    /// Adds a column of settings' values, which are some of `all`. They are numbers if all of those
    /// are, and are written as a number is. So the type does not depend on the rows.
    pub fn settings(
        self,
        name: impl Into<Cow<'r, str>>,
        all: &[Cow<str>],
        value: impl Fn(&'r R) -> Cow<'r, str>,
    ) -> Self {
        let texts = self.rows.iter().map(value);
        let values = if all.is_empty() {
            Values::Text(texts.collect())
        } else if all.iter().all(|text| as_integer(text).is_some()) {
            Values::Integers(texts.map(|text| as_integer(&text)).collect())
        } else if all.iter().all(|text| as_number::<f64>(text).is_some()) {
            Values::Floats(texts.map(|text| as_number(&text)).collect(), None)
        } else {
            Values::Text(texts.collect())
        };
        self.with(name, values)
    }

    fn with(mut self, name: impl Into<Cow<'r, str>>, values: Values<'r>) -> Self {
        self.columns.push(Column { name: name.into(), values });
        self
    }

    /// Writes the table to a file, in the format that its name has.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, file: &Path) -> Result<()> {
        std::fs::write(file, self.bytes(TableFormat::of(file))?)
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// Returns the bytes of the table's file.
    ///
    /// # Errors
    /// The table, or a whole number in it, is too large for Parquet.
    pub fn bytes(&self, format: TableFormat) -> Result<Vec<u8>> {
        match format {
            TableFormat::Csv => Ok(self.csv().into_bytes()),
            TableFormat::Parquet => self.parquet().context("cannot make Parquet of a table"),
        }
    }

    pub fn csv(&self) -> String {
        let mut text = String::new();
        let names: Vec<Cow<str>> = self.columns.iter().map(|column| quoted(&column.name)).collect();
        text += &names.join(",");
        text.push('\n');
        for row in 0..self.rows.len() {
            for (number, column) in self.columns.iter().enumerate() {
                if number > 0 {
                    text.push(',');
                }
                column.values.add_csv(row, &mut text);
            }
            text.push('\n');
        }
        text
    }

    fn parquet(&self) -> Result<Vec<u8>, ParquetError> {
        let fields = self.columns.iter().map(|column| column.parquet_type().map(Arc::new));
        let fields: Vec<Arc<Type>> = fields.collect::<Result<_, _>>()?;
        let schema = Type::group_type_builder("table").with_fields(fields).build()?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let mut bytes = Vec::new();
        let mut file = SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties))?;
        let mut group = file.next_row_group()?;
        for column in &self.columns {
            match &column.values {
                Values::Text(values) => {
                    let values = values.iter().map(|text| Some(&**text).filter(|text| !text.is_empty()));
                    add_column::<ByteArrayType>(&mut group, values.map(|text| text.map(ByteArray::from)))?;
                }
                Values::Integers(values) => {
                    let signed = values.iter().map(|value| value.map(i64::try_from).transpose());
                    let signed: Vec<Option<i64>> = signed.collect::<Result<_, _>>().map_err(|_| {
                        ParquetError::General(format!("{} has a number above 2^63 - 1", column.name))
                    })?;
                    add_column::<Int64Type>(&mut group, signed.into_iter())?;
                }
                Values::Floats(values, _) => {
                    add_column::<DoubleType>(&mut group, values.iter().copied())?;
                }
            }
        }
        group.close()?;
        file.close()?;
        Ok(bytes)
    }
}

impl Column<'_> {
    /// Every column may have nulls, so that the type does not depend on the run.
    fn parquet_type(&self) -> Result<Type, ParquetError> {
        let (physical, logical) = match self.values {
            Values::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            Values::Integers(_) => (PhysicalType::INT64, None),
            Values::Floats(..) => (PhysicalType::DOUBLE, None),
        };
        let builder = Type::primitive_type_builder(&self.name, physical).with_logical_type(logical);
        builder.with_repetition(parquet::basic::Repetition::OPTIONAL).build()
    }
}

/// Adds the next column to a row group. A definition level is 0 for a null, and 1 for a value.
fn add_column<T: DataType>(
    group: &mut SerializedRowGroupWriter<&mut Vec<u8>>,
    values: impl Iterator<Item = Option<T::T>> + Clone,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let levels: Vec<i16> = values.clone().map(|value| value.is_some().into()).collect();
    let present: Vec<T::T> = values.flatten().collect();
    column.typed::<T>().write_batch(&present, Some(&levels), None)?;
    column.close()
}

impl Values<'_> {
    /// Adds the value of a row to a line of CSV.
    fn add_csv(&self, row: usize, text: &mut String) {
        let _ = match self {
            Self::Text(values) => write!(text, "{}", quoted(&values[row])),
            Self::Integers(values) => values[row].map_or(Ok(()), |value| write!(text, "{value}")),
            Self::Floats(values, decimals) => match (values[row], *decimals) {
                (None, _) => Ok(()),
                (Some(value), Some(decimals)) => write!(text, "{value:.decimals$}"),
                (Some(value), None) => write!(text, "{value}"),
            },
        };
    }
}

/// Parses a whole number that Parquet can hold as INT64, and that has this text and no other.
fn as_integer(text: &str) -> Option<u64> {
    as_number(text).filter(|number| i64::try_from(*number).is_ok())
}

/// Parses a number that has this text and no other.
fn as_number<T: std::str::FromStr + ToString>(text: &str) -> Option<T> {
    text.parse().ok().filter(|number: &T| number.to_string() == text)
}

/// Quotes a field of CSV where it has to be.
fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fixture::parquet_lines;

    #[test]
    fn both_formats_have_the_same_values() {
        let rows = [
            ("a", Some(7), 0.25, "10"),
            ("", None, f64::NAN, "300"),
            ("c,\"d\"", Some(u64::MAX >> 1), 1e12, "5"),
        ];
        let table = DataTable::new(&rows)
            .text("name", |row| row.0)
            .integers("count", |row| row.1)
            .floats("ratio", 1, |row| Some(row.2).filter(|ratio| !ratio.is_nan()))
            .floats("exact", None, |row| row.2)
            .settings("cable_m", &["10", "300", "5"].map(Cow::from), |row| row.3.into());
        assert_eq!(
            table.csv(),
            "name,count,ratio,exact,cable_m\na,7,0.2,0.25,10\n,,,NaN,300\n\"c,\"\"d\"\"\",9223372036854775807,1000000000000.0,1000000000000,5\n"
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("table.parquet");
        table.write(&file).unwrap();
        assert_eq!(
            parquet_lines(&file),
            [
                "name,count,ratio,exact,cable_m",
                "a,7,0.25,0.25,10",
                ",,,NaN,300",
                "c,\"d\",9223372036854775807,1000000000000,1000000000000,5"
            ]
        );
    }

    #[test]
    fn settings_are_numbers_if_all_are() {
        let kind = |all: &[&str]| {
            let texts: Vec<Cow<str>> = all.iter().map(|text| (*text).into()).collect();
            // The type is the same with one row, or none.
            let table = DataTable::new(&all[..all.len().min(1)]).settings("key", &texts, |row| (*row).into());
            match table.columns[0].values {
                Values::Text(_) => "text",
                Values::Integers(_) => "integers",
                Values::Floats(..) => "floats",
            }
        };
        assert_eq!(kind(&["10", "20"]), "integers");
        assert_eq!(kind(&["0.5", "20"]), "floats");
        assert_eq!(kind(&["0.50", "20"]), "text", "written as it was");
        assert_eq!(kind(&["20", "10G"]), "text");
        assert_eq!(kind(&["9223372036854775807", "20"]), "integers");
        assert_eq!(kind(&["9223372036854775808"]), "text", "beyond INT64");
        assert_eq!(kind(&[]), "text");
    }

    #[test]
    fn numbers_beyond_int64_are_refused() {
        let rows = [u64::MAX];
        let table = DataTable::new(&rows).integers("count", |row| *row);
        let why = format!("{:#}", table.bytes(TableFormat::Parquet).unwrap_err());
        assert!(why.contains("count has a number above 2^63 - 1"), "{why}");
        assert_eq!(table.csv(), "count\n18446744073709551615\n");
    }

    #[test]
    fn the_name_of_a_file_is_its_format() {
        for (file, format) in
            [("a.parquet", TableFormat::Parquet), ("a.csv", TableFormat::Csv), ("a", TableFormat::Csv)]
        {
            assert_eq!(TableFormat::of(Path::new(file)), format);
        }
    }
}
