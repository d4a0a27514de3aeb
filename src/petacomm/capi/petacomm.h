/* petacomm for C and Fortran: sums on shared keys, halos, redistribution of arrays, order of ranks.
 *
 * Functions return 0, or another number if something is wrong: petacomm_error_message() says what. Those that
 * are said to be collective are called by all ranks of the communicator. MPI must be initialised before, and
 * plans freed before MPI_Finalize. One thread calls at a time.
 *
 * docs/petacomm/c.md says how to compile, and has examples. */
#ifndef PETACOMM_H
#define PETACOMM_H

#include <mpi.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { PETACOMM_DOUBLE, PETACOMM_FLOAT, PETACOMM_INT64, PETACOMM_UINT8 } petacomm_type;
typedef enum { PETACOMM_SUM, PETACOMM_MAX, PETACOMM_MIN, PETACOMM_OR } petacomm_op;

typedef struct petacomm_plan petacomm_plan;
typedef struct petacomm_halo petacomm_halo;
typedef struct petacomm_redistribution petacomm_redistribution;

/* What the last function that failed on this rank found, with what to do about it. */
const char* petacomm_error_message(void);

/* Keys that ranks share.
 *
 * Make a plan of reductions of values on the keys of this rank: increasing, none negative, and there may be
 * none. `algorithm`: NULL to have the fastest chosen in the first call, or a name
 * (docs/petacomm/reduction.md). Collective. */
int petacomm_plan_create(MPI_Comm comm, int64_t n_keys, const int64_t* keys, const char* algorithm,
                         petacomm_plan** plan);

/* Reduce values on each key over the ranks that hold it, in place, to all of them. `values` are `width`
 * numbers for each key, [n_keys][width]. With `exact`, sums of floating-point numbers are made of integers:
 * they have the same bits on any number of ranks. Collective. */
int petacomm_allreduce(petacomm_plan* plan, void* values, int64_t width, petacomm_type type, petacomm_op op,
                       int exact);

/* The same to the owner of each key alone. Collective. */
int petacomm_reduce(petacomm_plan* plan, void* values, int64_t width, petacomm_type type, petacomm_op op,
                    int exact);

/* Give the values of owners to all other holders: fill ghosts. Collective. */
int petacomm_broadcast(petacomm_plan* plan, void* values, int64_t width, petacomm_type type);

/* An all-reduce in two halves: `values` must stay alone in between, while messages travel. Collective. */
int petacomm_allreduce_begin(petacomm_plan* plan, void* values, int64_t width, petacomm_type type,
                             petacomm_op op, int exact);
int petacomm_allreduce_end(petacomm_plan* plan);

/* Write which keys this rank owns (1 or 0), and how many ranks hold each; either may be NULL. */
int petacomm_plan_owners(petacomm_plan* plan, uint8_t* owned, int32_t* multiplicity);

/* Write the number of different keys of all ranks. */
int petacomm_plan_n_global(petacomm_plan* plan, int64_t* n_global);

/* Free a plan, and set it to NULL. Collective. */
int petacomm_plan_free(petacomm_plan** plan);

/* Ghosts of keys whose owners the program names, as the cells of a stencil.
 *
 * Make a halo of the keys that this rank owns, and no other rank, and of those of its ghosts, which others
 * own: both in any order, none negative, none twice; there may be none. Rows of `values` are those of
 * `owned_keys`, then those of `ghost_keys`, in their order: `width` numbers each, [n_owned +
 * n_ghosts][width]. Collective. */
int petacomm_halo_create(MPI_Comm comm, int64_t n_owned, const int64_t* owned_keys, int64_t n_ghosts,
                         const int64_t* ghost_keys, petacomm_halo** halo);

/* Fill ghosts with the rows of their owners. Collective. */
int petacomm_halo_exchange(petacomm_halo* halo, void* values, int64_t width, petacomm_type type);

/* The same in two halves. In between messages travel: all rows may be read, where ghosts have what they had
 * before, and none be written. A halo has one begun call at a time, other halos theirs. Collective. */
int petacomm_halo_exchange_begin(petacomm_halo* halo, void* values, int64_t width, petacomm_type type);
int petacomm_halo_exchange_end(petacomm_halo* halo);

/* Reduce rows of ghosts onto those of their owners; ghosts keep theirs. Terms are taken in the order of
 * ranks. Collective. */
int petacomm_halo_reduce(petacomm_halo* halo, void* values, int64_t width, petacomm_type type,
                         petacomm_op op);

/* The same in two halves: in between the program may add to owned rows, and must leave ghosts alone.
 * Collective. */
int petacomm_halo_reduce_begin(petacomm_halo* halo, void* values, int64_t width, petacomm_type type,
                               petacomm_op op);
int petacomm_halo_reduce_end(petacomm_halo* halo);

/* Write the rank that owns each ghost, [n_ghosts]. */
int petacomm_halo_owners(petacomm_halo* halo, int32_t* owners);

/* Free a halo, and set it to NULL. Collective. */
int petacomm_halo_free(petacomm_halo** halo);

/* Arrays that lie in boxes on a grid of ranks, which count in C order; of n elements along an axis with p
 * ranks, each has n / p, and the first n % p one more.
 *
 * Make a plan of moving arrays of `n_axes` axes from a grid to another. `orders` are the axes as they lie in
 * memory, slowest first; NULL: in C order. Collective. */
int petacomm_redistribution_create(MPI_Comm comm, int n_axes, const int64_t* shape,
                                   const int64_t* grid_before, const int64_t* order_before,
                                   const int64_t* grid_after, const int64_t* order_after,
                                   int64_t element_bytes, petacomm_redistribution** plan);

/* Write the shapes of this rank's boxes, in the order of axes; either may be NULL. */
int petacomm_redistribution_shapes(petacomm_redistribution* plan, int64_t* before, int64_t* after);

/* Move an array. Calls with the same arrays are the fastest. Collective. */
int petacomm_redistribute(petacomm_redistribution* plan, const void* before, void* after);

/* Free a plan, and set it to NULL. Collective. */
int petacomm_redistribution_free(petacomm_redistribution** plan);

/* Make a communicator of the same processes, ranked so that the busiest link of the machine carries less.
 * This rank of `comm` would send `bytes[i]` to rank `targets[i]`, and so would it of the new one. To be freed
 * by MPI_Comm_free. Collective. */
int petacomm_reorder(MPI_Comm comm, int64_t n_targets, const int64_t* targets, const double* bytes,
                     MPI_Comm* reordered);

#ifdef __cplusplus
}
#endif

#endif
