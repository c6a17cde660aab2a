// Blocks of a cluster (compute capability 9.0 and later) send numbers into each other's shared memory; tests emulate them.

#pragma once

#include <stdint.h>

namespace {

// opens, each time anew, when what its block expects has come
using Barrier = uint64_t;

__device__ uint32_t shared_address(const void* at) { return static_cast<uint32_t>(__cvta_generic_to_shared(at)); }

// of the block of that rank, what lies where `at` lies in this one
__device__ uint32_t address_in(const void* at, int rank) {
    uint32_t found;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(found) : "r"(shared_address(at)), "r"(rank));
    return found;
}

__device__ int cluster_rank() {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return static_cast<int>(rank);
}

// one thread of a block says when it is ready; all threads wait until all blocks are
__device__ void make_barrier(Barrier* barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// by one thread a time
__device__ void expect(Barrier* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

__device__ void send(float* to, Barrier* barrier, int rank, float value) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(address_in(to, rank)), "f"(value),
                 "r"(address_in(barrier, rank))
                 : "memory");
}

// `parity` is that of the times it opened before
__device__ void wait(Barrier* barrier, int parity) {
    uint32_t is_open;
    do asm volatile("{\n.reg .pred open;\n"
                    "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 open, [%1], %2;\n"
                    "selp.u32 %0, 1, 0, open;\n}"
                    : "=r"(is_open)
                    : "r"(shared_address(barrier)), "r"(parity)
                    : "memory");
    while (!is_open);
}

}  // namespace
