/* NVML without a device: no other processes, no fabric. */
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **d) { *d = (void *)1; return 0; }
int nvmlDeviceGetComputeRunningProcesses(void *d, unsigned *n, void *p) { *n = 0; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, void *p) { *n = 0; return 0; }
int nvmlDeviceGetGpuFabricInfoV(void *d, void *f) { return 0; }
int nvmlDeviceGetNvLinkRemoteDeviceType(void) { return 3; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void) { return 3; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 13020; return 0; }
