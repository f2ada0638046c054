"""A collector in Python (grpcio) for the messages of grpc_dialout.proto: prints what it gets as the one in C++ does.

Usage: collector.py FOLDER PORT, where FOLDER holds what protoc made of grpc_dialout.proto.
"""
import sys
from concurrent import futures

import grpc

sys.path.insert(0, sys.argv[1])
import grpc_dialout_pb2
import grpc_dialout_pb2_grpc


class Collector(grpc_dialout_pb2_grpc.GRPCDialoutServicer):
    def Dialout(self, messages, context):
        for message in messages:
            device = message.deviceMsg
            print("Producer-Name:", device.producerName)
            print("Device-Name:", device.deviceName)
            print("Device-Model:", device.deviceModel)
            print("Sensor-Path:", message.sensorPath)
            print("Json-Data:", message.jsonData, flush=True)
        return grpc_dialout_pb2.DialoutResponse(response="test")


server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
grpc_dialout_pb2_grpc.add_GRPCDialoutServicer_to_server(Collector(), server)
server.add_insecure_port("127.0.0.1:" + sys.argv[2])
server.start()
print("running on port", sys.argv[2], flush=True)
server.wait_for_termination()
