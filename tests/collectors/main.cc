// A collector in C++, built as the H3C reference describes ("Developing a gRPC collector-side
// application"): the server side of grpc_dialout.proto, in plain text on port 50050, which prints
// each message and answers the end of a stream with "test".
#include <grpcpp/grpcpp.h>

#include <iostream>
#include <memory>
#include <string>

#include "grpc_dialout.grpc.pb.h"

using grpc::ServerContext;
using grpc::ServerReader;
using grpc::Status;
using grpc_dialout::DialoutMsg;
using grpc_dialout::DialoutResponse;

class Collector final : public grpc_dialout::GRPCDialout::Service {
    Status Dialout(ServerContext *context, ServerReader<DialoutMsg> *reader, DialoutResponse *response) override {
        DialoutMsg message;
        while (reader->Read(&message)) {
            const auto &device = message.devicemsg();
            std::cout << "peer info: " << context->peer() << "\n"
                      << "Producer-Name: " << device.producername() << "\n"
                      << "Device-Name: " << device.devicename() << "\n"
                      << "Device-Model: " << device.devicemodel() << "\n"
                      << "Sensor-Path: " << message.sensorpath() << "\n"
                      << "Json-Data: " << message.jsondata() << std::endl;
        }
        response->set_response("test");
        return Status::OK;
    }
};

int main() {
    const std::string address("0.0.0.0:50050");
    Collector collector;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(&collector);
    std::unique_ptr<grpc::Server> server(builder.BuildAndStart());
    std::cout << "running on " << address << std::endl;
    server->Wait();
}
