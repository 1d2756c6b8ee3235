/* A CUDA runtime without a device: memory is numbers, kernels do nothing. Preloaded under a torch built for CUDA, it lets
   torch's own allocator run, and be recorded, on a machine without a GPU. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <pthread.h>
#include <time.h>

#define BASE 0x7f0000000000ULL
#define SPACE (1ULL << 42)
#define MAX_DEVICES 8
#define MAX_RANGES (1 << 16)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t next_address = BASE, used[MAX_DEVICES];
static struct { uint64_t at, size; int device; } ranges[MAX_RANGES];
static int range_count;
static __thread int device;
static __thread cudaError_t last;
static cudaStream_t capturing;
static uint64_t capture_id;
static int stream_count, event_count;

static uint64_t limit(void) { const char *s = getenv("SIM_CUDA_BYTES"); return s ? strtoull(s, 0, 10) : 1ULL << 34; }
static int count(void) { const char *s = getenv("SIM_CUDA_DEVICES"); return s ? atoi(s) : 1; }
static int pending(void) { const char *s = getenv("SIM_CUDA_PENDING"); return s ? atoi(s) : 0; }
static uint64_t outside(void) { const char *s = getenv("SIM_CUDA_OUTSIDE"); return s ? strtoull(s, 0, 10) : 0; }
static cudaError_t fails(cudaError_t e) { return last = e; }
static int is_device(const void *p) { return (uint64_t)p >= BASE && (uint64_t)p < BASE + SPACE; }

cudaError_t cudaGetDeviceCount(int *n) { *n = count(); return 0; }
cudaError_t cudaGetDevice(int *d) { *d = device; return 0; }
cudaError_t cudaSetDevice(int d) { device = d; return 0; }
cudaError_t cudaDriverGetVersion(int *v) { *v = CUDART_VERSION; return 0; }
cudaError_t cudaRuntimeGetVersion(int *v) { *v = CUDART_VERSION; return 0; }
cudaError_t cudaGetLastError(void) { cudaError_t e = last; last = 0; return e; }
cudaError_t cudaPeekAtLastError(void) { return last; }
const char *cudaGetErrorName(cudaError_t e) { return e == 2 ? "cudaErrorMemoryAllocation" : "cudaError"; }
const char *cudaGetErrorString(cudaError_t e) { return e == 2 ? "out of memory" : "error"; }
cudaError_t cudaDeviceGetStreamPriorityRange(int *a, int *b) { *a = 0; *b = -5; return 0; }
cudaError_t cudaDeviceGetPCIBusId(char *s, int n, int d) { snprintf(s, n, "0000:%02x:00.0", d); return 0; }
cudaError_t cudaDeviceCanAccessPeer(int *can, int a, int b) { *can = 1; return 0; }

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int d) {
  memset(p, 0, sizeof *p);
  strcpy(p->name, "Simulated device");
  p->totalGlobalMem = limit(); p->major = 9; p->minor = 0; p->multiProcessorCount = 132; p->warpSize = 32;
  p->maxThreadsPerBlock = 1024; p->maxThreadsPerMultiProcessor = 2048; p->sharedMemPerBlock = 49152;
  p->sharedMemPerBlockOptin = 232448; p->sharedMemPerMultiprocessor = 233472; p->regsPerMultiprocessor = 65536;
  p->regsPerBlock = 65536; p->l2CacheSize = 50 << 20; p->maxBlocksPerMultiProcessor = 32; p->memoryBusWidth = 5120;
  for (int i = 0; i < 3; i++) { p->maxThreadsDim[i] = 1024; p->maxGridSize[i] = i ? 65535 : 2147483647; }
  p->concurrentKernels = 1; p->unifiedAddressing = 1; p->pciDeviceID = d; p->textureAlignment = 512;
  return 0;
}
cudaError_t cudaDeviceGetAttribute(int *v, enum cudaDeviceAttr a, int d) {
  struct cudaDeviceProp p; cudaGetDeviceProperties(&p, d);
  switch (a) {
    case cudaDevAttrMultiProcessorCount: *v = 132; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *v = 232448; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *v = 49152; break;
    case cudaDevAttrComputeCapabilityMajor: *v = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *v = 0; break;
    case cudaDevAttrWarpSize: *v = 32; break;
    case cudaDevAttrMaxThreadsPerBlock: *v = 1024; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *v = 2048; break;
    case cudaDevAttrMaxGridDimX: *v = 2147483647; break;
    case cudaDevAttrMaxGridDimY: case cudaDevAttrMaxGridDimZ: *v = 65535; break;
    default: *v = 1;
  }
  return 0;
}
cudaError_t cudaMemGetInfo(size_t *f, size_t *t) { *t = limit(); *f = *t - used[device] - outside(); return 0; }

/* --- memory */
static cudaError_t take(void **p, size_t n, uint64_t unit) {
  pthread_mutex_lock(&lock);
  uint64_t size = (n + unit - 1) / unit * unit;
  if (used[device] + size + outside() > limit()) { pthread_mutex_unlock(&lock); *p = 0; return fails(cudaErrorMemoryAllocation); }
  int i = 0;
  for (; i < range_count; i++) if (!ranges[i].size && 0) break;
  i = range_count < MAX_RANGES ? range_count++ : MAX_RANGES - 1;
  ranges[i].at = next_address; ranges[i].size = size; ranges[i].device = device;
  next_address += size; used[device] += size;
  *p = (void *)ranges[i].at;
  pthread_mutex_unlock(&lock);
  return 0;
}
cudaError_t cudaMalloc(void **p, size_t n) { return take(p, n, 2 << 20); }
cudaError_t cudaFree(void *p) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < range_count; i++)
    if (ranges[i].at == (uint64_t)p && ranges[i].size) { used[ranges[i].device] -= ranges[i].size; ranges[i].size = 0; break; }
  pthread_mutex_unlock(&lock);
  return 0;
}
cudaError_t cudaHostAlloc(void **p, size_t n, unsigned f) { return posix_memalign(p, 4096, n ? n : 1); }
cudaError_t cudaMallocHost(void **p, size_t n) { return posix_memalign(p, 4096, n ? n : 1); }
cudaError_t cudaFreeHost(void *p) { free(p); return 0; }
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p) {
  memset(a, 0, sizeof *a);
  a->type = is_device(p) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  a->devicePointer = (void *)p; a->device = device;
  return 0;
}
static void copy(void *to, const void *from, size_t n) {
  if (is_device(to)) return;
  if (is_device(from)) memset(to, 0, n); else memcpy(to, from, n);
}
cudaError_t cudaMemcpy(void *t, const void *f, size_t n, enum cudaMemcpyKind k) { copy(t, f, n); return 0; }
cudaError_t cudaMemcpyAsync(void *t, const void *f, size_t n, enum cudaMemcpyKind k, cudaStream_t s) { copy(t, f, n); return 0; }

/* --- virtual memory, for expandable segments */
struct physical { uint64_t size; int device; };
static CUresult memCreate(CUmemGenericAllocationHandle *h, size_t n, const CUmemAllocationProp *prop, unsigned long long f) {
  int d = prop->location.id;
  pthread_mutex_lock(&lock);
  int full = used[d] + n + outside() > limit();
  if (!full) used[d] += n;
  pthread_mutex_unlock(&lock);
  if (full) return CUDA_ERROR_OUT_OF_MEMORY;
  struct physical *p = malloc(sizeof *p); p->size = n; p->device = d; *h = (CUmemGenericAllocationHandle)p;
  return 0;
}
static CUresult memRelease(CUmemGenericAllocationHandle h) {
  struct physical *p = (void *)h;
  pthread_mutex_lock(&lock); used[p->device] -= p->size; pthread_mutex_unlock(&lock);
  free(p);
  return 0;
}
static CUresult memReserve(CUdeviceptr *p, size_t n, size_t a, CUdeviceptr at, unsigned long long f) {
  pthread_mutex_lock(&lock); *p = next_address; next_address += (n + (2 << 20) - 1) >> 21 << 21; pthread_mutex_unlock(&lock);
  return 0;
}
static CUresult granularity(size_t *g, const CUmemAllocationProp *p, CUmemAllocationGranularity_flags o) { *g = 2 << 20; return 0; }
static CUresult ctxGetCurrent(CUcontext *c) { *c = (CUcontext)0x1; return 0; }
static CUresult deviceGet(CUdevice *d, int n) { *d = n; return 0; }
static CUresult deviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d) { *v = 1; return 0; }
static CUresult getErrorString(CUresult e, const char **s) { *s = "driver error"; return 0; }
static CUresult addressRange(CUdeviceptr *b, size_t *n, CUdeviceptr p) { *b = p; *n = 0; return 0; }
static CUresult nothing(void) { return 0; }
cudaError_t cudaGetDriverEntryPointByVersion(const char *s, void **f, unsigned v, unsigned long long g, enum cudaDriverEntryPointQueryResult *r) {
  static const struct { const char *name; void *at; } known[] = {
    {"cuMemCreate", memCreate}, {"cuMemRelease", memRelease}, {"cuMemAddressReserve", memReserve},
    {"cuMemGetAllocationGranularity", granularity}, {"cuCtxGetCurrent", ctxGetCurrent}, {"cuDeviceGet", deviceGet},
    {"cuDeviceGetAttribute", deviceGetAttribute}, {"cuGetErrorString", getErrorString}, {"cuMemGetAddressRange", addressRange},
  };
  *f = (void *)nothing;
  for (unsigned i = 0; i < sizeof known / sizeof *known; i++) if (!strcmp(s, known[i].name)) *f = known[i].at;
  if (r) *r = 0;
  return 0;
}
cudaError_t cudaGetDriverEntryPoint(const char *s, void **f, unsigned long long g, enum cudaDriverEntryPointQueryResult *r) {
  return cudaGetDriverEntryPointByVersion(s, f, 0, g, r);
}

/* --- streams, events, captures */
static cudaStream_t stream(void) { return (cudaStream_t)(0x560000000000ULL + 0x1000ULL * __sync_add_and_fetch(&stream_count, 1)); }
cudaError_t cudaStreamCreate(cudaStream_t *s) { *s = stream(); return 0; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned f) { *s = stream(); return 0; }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned f, int p) { *s = stream(); return 0; }
cudaError_t cudaStreamGetPriority(cudaStream_t s, int *p) { *p = 0; return 0; }
cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode m) { capturing = s; capture_id++; return 0; }
cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *o) { *o = capturing && s == capturing; return 0; }
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g) { capturing = 0; *g = (cudaGraph_t)0x1000; return 0; }
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, enum cudaStreamCaptureStatus *o, unsigned long long *id, cudaGraph_t *g,
    const cudaGraphNode_t **d, const cudaGraphEdgeData **e, size_t *n) {
  *o = capturing && s == capturing;
  if (id) *id = capture_id; if (g) *g = (cudaGraph_t)0x1000; if (d) *d = 0; if (e) *e = 0; if (n) *n = 0;
  return 0;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long f) { *x = (cudaGraphExec_t)0x2000; return 0; }
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long f) { *x = (cudaGraphExec_t)0x2000; return 0; }
cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *n, size_t *c) { *c = 1; return 0; }
cudaError_t cudaUserObjectCreate(cudaUserObject_t *o, void *p, cudaHostFn_t f, unsigned n, unsigned g) { *o = (cudaUserObject_t)0x3000; return 0; }
struct event { int left; };
static cudaError_t event(cudaEvent_t *e) { struct event *x = malloc(sizeof *x); x->left = pending(); *e = (cudaEvent_t)x; return 0; }
cudaError_t cudaEventCreate(cudaEvent_t *e) { return event(e); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned f) { return event(e); }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) { ((struct event *)e)->left = pending(); return 0; }
cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned f) { ((struct event *)e)->left = pending(); return 0; }
cudaError_t cudaEventQuery(cudaEvent_t e) { struct event *x = (void *)e; return x->left-- > 0 ? cudaErrorNotReady : 0; }
cudaError_t cudaEventSynchronize(cudaEvent_t e) { ((struct event *)e)->left = 0; return 0; }
cudaError_t cudaEventElapsedTime(float *f, cudaEvent_t a, cudaEvent_t b) { *f = 1; return 0; }

/* --- kernels */
void **__cudaRegisterFatBinary(void *b) { static void *one; return &one; }
cudaError_t __cudaGetKernel(cudaKernel_t *k, const void *f) { *k = (cudaKernel_t)f; return 0; }
cudaError_t __cudaPopCallConfiguration(dim3 *g, dim3 *b, size_t *s, void *t) { g->x = g->y = g->z = b->x = b->y = b->z = 1; *s = 0; *(void **)t = 0; return 0; }
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *f) {
  memset(a, 0, sizeof *a); a->maxThreadsPerBlock = 1024; a->ptxVersion = a->binaryVersion = 90; a->numRegs = 32; return 0;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *f, int b, size_t s) { *n = 2; return 0; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *f, int b, size_t s, unsigned g) { *n = 2; return 0; }
cudaError_t cudaGetSymbolAddress(void **p, const void *s) { *p = (void *)BASE; return 0; }

/* --- cuBLAS */
int cublasCreate_v2(void **h) { *h = malloc(8); return 0; }
int cublasLtCreate(void **h) { *h = malloc(8); return 0; }
int cublasGetMathMode(void *h, int *m) { *m = 0; return 0; }
int cublasGetPointerMode_v2(void *h, int *m) { *m = 0; return 0; }
int cublasLtMatmulAlgoGetHeuristic(void *h, void *d, void *a, void *b, void *c, void *e, void *p, int n, void *r, int *got) {
  memset(r, 0, 64 + 8 + 4 + 4 + 16); *got = 1; return 0;
}

/* --- CUPTI: it records nothing */
int cuptiGetResultString(int e, const char **s) { *s = "nothing is recorded"; return 0; }
int cuptiGetVersion(unsigned *v) { *v = 28; return 0; }
int cuptiActivityGetNextRecord(void) { return 12; }
int cuptiActivityGetNumDroppedRecords(void *c, unsigned s, unsigned long *n) { *n = 0; return 0; }
int cuptiGetTimestamp(unsigned long *t) { struct timespec n; clock_gettime(CLOCK_REALTIME, &n); *t = n.tv_sec * 1000000000UL + n.tv_nsec; return 0; }
