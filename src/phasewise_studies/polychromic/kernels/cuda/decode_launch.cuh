// Kernels that follow one another on a stream, each started while the one before it still runs (programmatic dependent launch).

#pragma once

#include <cuda_runtime.h>

namespace {

struct Stream {
    cudaStream_t stream;
    bool overlap;
    cudaError_t error = cudaSuccess;

    // CLUSTER blocks run at once and see each other's shared memory
    template <int CLUSTER = 1, class... P, class... A>
    void start(void (*kernel)(P...), int blocks, int threads, int bytes, A... arguments) {
        if (error == cudaSuccess && bytes > 48 * 1024)
            error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        if (error != cudaSuccess) return;
        cudaLaunchAttribute attributes[2] = {};
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(blocks);
        config.blockDim = dim3(threads);
        config.dynamicSmemBytes = bytes;
        config.stream = stream;
        config.attrs = attributes;
        if (overlap) {
            cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
            attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
            attribute.val.programmaticStreamSerializationAllowed = 1;
        }
        if (CLUSTER > 1) {
            cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
            attribute.id = cudaLaunchAttributeClusterDimension;
            attribute.val.clusterDim = {CLUSTER, 1, 1};
        }
        error = cudaLaunchKernelEx(&config, kernel, P(arguments)...);
    }
};

}  // namespace
