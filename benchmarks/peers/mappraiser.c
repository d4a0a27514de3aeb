/* P^T N^-1 P as MAPPRAISER's solver multiplies by it, of MIDAPACK's public calls: TIMES FILE. Its N^-1 takes the mean
   of each detector off first.

   FILE: int32 n_det, n_samp, n_lag, n_pix; lags [n_lag] float64; pixels [n_det][n_samp] int32; angles [same] float64.
   Prints the seconds of the processor of the fastest call, and the sum of the map that comes out. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "mapmat/mapmat.h"
#include "toeplitz/toeplitz.h"

static void *load(FILE *file, size_t n, size_t size) {
    void *found = malloc(n * size);
    if (!found || fread(found, size, n, file) != n) exit(1);
    return found;
}

/* The rows of P: I, Q, U of the pixel of each sample. */
static void point(FILE *file, size_t n, int *indices, double *values) {
    int *pixels = load(file, n, sizeof(int));
    double *angles = load(file, n, sizeof(double));
    for (size_t i = 0; i < n; ++i) {
        for (int k = 0; k < 3; ++k) indices[3 * i + k] = 3 * pixels[i] + k;
        values[3 * i] = 1.0;
        values[3 * i + 1] = cos(2 * angles[i]);
        values[3 * i + 2] = sin(2 * angles[i]);
    }
    free(pixels);
    free(angles);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

/* N^-1: a block for each detector, with the strategy that MAPPRAISER chooses. */
static Tpltz toeplitz(const int *head, double *lags, Block *blocks) {
    Tpltz all = {.nrow = (int64_t) head[0] * head[1], .m_cw = 1, .m_rw = 1, .tpltzblocks = blocks,
                 .nb_blocks_loc = head[0], .nb_blocks_tot = head[0], .idp = 0,
                 .local_V_size = head[0] * head[1], .comm = MPI_COMM_WORLD};
    flag_stgy_init_auto(&all.flag_stgy);
    for (int d = 0; d < head[0]; ++d)
        blocks[d] = (Block){.idv = (int64_t) d * head[1], .T_block = lags, .lambda = head[2], .n = head[1]};
    return all;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const int times = atoi(argv[1]);
    FILE *file = fopen(argv[2], "rb");
    if (!file) return 1;
    int *head = load(file, 4, sizeof(int));
    double *lags = load(file, (size_t) head[2], sizeof(double));
    const int n = head[0] * head[1];
    int *indices = malloc(3 * (size_t) n * sizeof(int));
    double *values = malloc(3 * (size_t) n * sizeof(double)), *stream = malloc((size_t) n * sizeof(double));
    point(file, (size_t) n, indices, values);
    Mat pointing = {0};
    MatInit(&pointing, n, 3, indices, values, ALLREDUCE, MPI_COMM_WORLD);
    Block *blocks = malloc((size_t) head[0] * sizeof(Block));
    Tpltz inverse_noise = toeplitz(head, lags, blocks);
    const int rows = pointing.lcount;
    double *in = malloc((size_t) rows * sizeof(double)), *out = malloc((size_t) rows * sizeof(double));
    for (int i = 0; i < rows; ++i) in[i] = 1.0;
    double best = INFINITY, sum = 0;
    for (int turn = 0; turn <= times; ++turn) { /* one to warm up */
        const double begin = seconds();
        MatVecProd(&pointing, in, stream, 0);
        stbmmProd(&inverse_noise, stream);
        TrMatVecProd(&pointing, stream, out, 0);
        if (turn && seconds() - begin < best) best = seconds() - begin;
    }
    for (int i = 0; i < rows; ++i) sum += out[i];
    printf("\n%.9g %.17g\n", best, sum);
    MPI_Finalize();
    return 0;
}
