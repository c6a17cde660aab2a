// Blocks of a cluster on a CPU: what is sent has come at once.
#pragma once

#include <cuda_runtime.h>

// as the hardware counts: one arrival, which says how many bytes, and those bytes
struct Barrier {
    int arrivals = 1, bytes = 0, times = 0;

    void settle() { if (!arrivals && !bytes) arrivals = 1, ++times; }
};
inline void make_barrier(Barrier* barrier) { *barrier = {}; }
inline void expect(Barrier* barrier, int bytes) {
    --barrier->arrivals, barrier->bytes += bytes;
    barrier->settle();
}
inline void wait(Barrier* barrier, int parity) {
    while (barrier->times % 2 == parity) emulated::await(barrier->times, barrier->times);
}

inline int cluster_rank() { return emulated::now->rank; }
inline void cluster_arrive() { emulated::now->cluster_turn = emulated::arrive(emulated::of_cluster); }
inline void cluster_wait() { emulated::await(emulated::of_cluster.turn, emulated::now->cluster_turn); }

// of the block of that rank, what lies where `at` lies in this one
template <class T> T* find_in(T* at, int rank) {
    char* there = reinterpret_cast<char*>(emulated::blocks[rank].memory.data());
    return reinterpret_cast<T*>(there + (reinterpret_cast<char*>(at) - reinterpret_cast<char*>(emulated::memory)));
}
inline void send(float* to, Barrier* barrier, int rank, float value) {
    *find_in(to, rank) = value;
    find_in(barrier, rank)->bytes -= 4;
    find_in(barrier, rank)->settle();
}
