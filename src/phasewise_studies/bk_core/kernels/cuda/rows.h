// What the binding knows of the kernel.
#pragma once
#include <cuda_runtime.h>

// Segments of 512 positions in a row; `states` holds 64 floats for each segment of each row.
int count_segments(int length);

// a, out: contiguous rows of `length` floats and of `length` pairs. b and c: vectors with these strides, shared by all rows.
cudaError_t launch_rows(float* out, const float* a, const float* b, const float* c, float* states, float energy, float eta,
                        int batch, int length, long long stride_b, long long stride_c, bool causal, bool sharp,
                        cudaStream_t stream);
