/* Prints the numbers, sizes and offsets of the headers it is compiled against: the vendor's and the emulator's must
   print the same (abi.sh). */
#include <cuda_runtime_api.h>
#include <cublasLt.h>
#include <nccl.h>
#include <stdio.h>

#define NUMBER(x)         printf(#x " %lld\n", (long long)(x))
#define SIZE(T)           printf("sizeof " #T " %zu\n", sizeof(T))
#define OFFSET(T, member) printf("offset " #T "." #member " %zu\n", offsetof(T, member))

static void runtime(void) {
#define CUDA(name, number, text) NUMBER(name);
#include ERRORS
#undef CUDA
  NUMBER(cudaMemcpyHostToDevice), NUMBER(cudaMemcpyDeviceToHost), NUMBER(cudaMemcpyDeviceToDevice);
  NUMBER(cudaMemcpyHostToHost), NUMBER(cudaMemcpyDefault);
  NUMBER(cudaMemoryTypeUnregistered), NUMBER(cudaMemoryTypeHost), NUMBER(cudaMemoryTypeDevice);
  NUMBER(cudaStreamCaptureModeGlobal), NUMBER(cudaStreamCaptureModeThreadLocal);
  NUMBER(cudaStreamCaptureModeRelaxed), NUMBER(cudaStreamCaptureStatusNone);
  NUMBER(cudaStreamCaptureStatusActive), NUMBER(cudaStreamCaptureStatusInvalidated);
  NUMBER(cudaFuncAttributeMaxDynamicSharedMemorySize);
  NUMBER(cudaFuncAttributePreferredSharedMemoryCarveout);
  NUMBER(cudaStreamDefault), NUMBER(cudaStreamNonBlocking), NUMBER(cudaEventDefault);
  NUMBER(cudaEventBlockingSync), NUMBER(cudaEventDisableTiming);
  NUMBER(cudaHostAllocDefault), NUMBER(cudaHostAllocPortable);
  NUMBER(cudaDevAttrMaxThreadsPerBlock), NUMBER(cudaDevAttrMaxBlockDimX),
      NUMBER(cudaDevAttrMaxBlockDimY);
  NUMBER(cudaDevAttrMaxBlockDimZ), NUMBER(cudaDevAttrMaxGridDimX), NUMBER(cudaDevAttrMaxGridDimY);
  NUMBER(cudaDevAttrMaxGridDimZ), NUMBER(cudaDevAttrMaxSharedMemoryPerBlock),
      NUMBER(cudaDevAttrWarpSize);
  NUMBER(cudaDevAttrMaxRegistersPerBlock), NUMBER(cudaDevAttrClockRate);
  NUMBER(cudaDevAttrMultiProcessorCount), NUMBER(cudaDevAttrIntegrated),
      NUMBER(cudaDevAttrComputeMode);
  NUMBER(cudaDevAttrConcurrentKernels), NUMBER(cudaDevAttrEccEnabled), NUMBER(cudaDevAttrPciBusId);
  NUMBER(cudaDevAttrPciDeviceId), NUMBER(cudaDevAttrMemoryClockRate);
  NUMBER(cudaDevAttrGlobalMemoryBusWidth), NUMBER(cudaDevAttrL2CacheSize);
  NUMBER(cudaDevAttrMaxThreadsPerMultiProcessor), NUMBER(cudaDevAttrAsyncEngineCount);
  NUMBER(cudaDevAttrUnifiedAddressing), NUMBER(cudaDevAttrPciDomainId);
  NUMBER(cudaDevAttrComputeCapabilityMajor), NUMBER(cudaDevAttrComputeCapabilityMinor);
  NUMBER(cudaDevAttrStreamPrioritiesSupported), NUMBER(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  NUMBER(cudaDevAttrManagedMemory), NUMBER(cudaDevAttrCooperativeLaunch);
  NUMBER(cudaDevAttrMaxSharedMemoryPerBlockOptin), NUMBER(cudaDevAttrMaxBlocksPerMultiprocessor);
  NUMBER(cudaDevAttrReservedSharedMemoryPerBlock), NUMBER(cudaDevAttrMemoryPoolsSupported);
  SIZE(struct cudaDeviceProp), OFFSET(struct cudaDeviceProp, name);
  OFFSET(struct cudaDeviceProp, totalGlobalMem), OFFSET(struct cudaDeviceProp, sharedMemPerBlock);
  OFFSET(struct cudaDeviceProp, warpSize), OFFSET(struct cudaDeviceProp, major);
  OFFSET(struct cudaDeviceProp, minor), OFFSET(struct cudaDeviceProp, multiProcessorCount);
  SIZE(struct cudaPointerAttributes), OFFSET(struct cudaPointerAttributes, devicePointer);
  OFFSET(struct cudaPointerAttributes, hostPointer);
  SIZE(dim3), SIZE(float2), SIZE(float3), SIZE(float4), SIZE(int4), SIZE(double2), SIZE(uchar4);
  NUMBER(_Alignof(float2)), NUMBER(_Alignof(float4)), NUMBER(_Alignof(uint2)),
      NUMBER(_Alignof(uint4));
  NUMBER(_Alignof(double2)), NUMBER(_Alignof(uchar4)), NUMBER(_Alignof(ushort4)),
      NUMBER(_Alignof(longlong2));
}
static void cublaslt(void) {
  NUMBER(CUBLAS_STATUS_SUCCESS), NUMBER(CUBLAS_STATUS_NOT_INITIALIZED),
      NUMBER(CUBLAS_STATUS_ALLOC_FAILED);
  NUMBER(CUBLAS_STATUS_INVALID_VALUE), NUMBER(CUBLAS_STATUS_ARCH_MISMATCH);
  NUMBER(CUBLAS_STATUS_EXECUTION_FAILED), NUMBER(CUBLAS_STATUS_INTERNAL_ERROR);
  NUMBER(CUBLAS_STATUS_NOT_SUPPORTED), NUMBER(CUBLAS_OP_N), NUMBER(CUBLAS_OP_T);
  NUMBER(CUBLAS_COMPUTE_16F), NUMBER(CUBLAS_COMPUTE_32F), NUMBER(CUBLAS_COMPUTE_32F_PEDANTIC);
  NUMBER(CUBLAS_COMPUTE_32F_FAST_TF32), NUMBER(CUBLAS_COMPUTE_64F);
  NUMBER(CUDA_R_32F), NUMBER(CUDA_R_64F), NUMBER(CUDA_R_16F), NUMBER(CUDA_R_16BF),
      NUMBER(CUDA_R_8I);
  NUMBER(CUDA_R_32I);
  NUMBER(CUBLASLT_EPILOGUE_DEFAULT), NUMBER(CUBLASLT_EPILOGUE_RELU), NUMBER(CUBLASLT_EPILOGUE_BIAS);
  NUMBER(CUBLASLT_EPILOGUE_RELU_BIAS), NUMBER(CUBLASLT_EPILOGUE_GELU),
      NUMBER(CUBLASLT_EPILOGUE_GELU_BIAS);
  NUMBER(CUBLASLT_EPILOGUE_GELU_AUX), NUMBER(CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  NUMBER(CUBLASLT_EPILOGUE_DGELU), NUMBER(CUBLASLT_EPILOGUE_DGELU_BGRAD);
  NUMBER(CUBLASLT_EPILOGUE_BGRADA), NUMBER(CUBLASLT_EPILOGUE_BGRADB);
  NUMBER(CUBLASLT_MATMUL_DESC_TRANSA), NUMBER(CUBLASLT_MATMUL_DESC_TRANSB);
  NUMBER(CUBLASLT_MATMUL_DESC_EPILOGUE), NUMBER(CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  NUMBER(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE), NUMBER(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
  NUMBER(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD),
      NUMBER(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE);
  NUMBER(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE), NUMBER(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  NUMBER(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT), NUMBER(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  NUMBER(CUBLASLT_MATRIX_LAYOUT_ROWS), NUMBER(CUBLASLT_MATRIX_LAYOUT_COLS),
      NUMBER(CUBLASLT_MATRIX_LAYOUT_LD);
  NUMBER(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES),
      NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES),
      NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
  NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  SIZE(cublasLtMatmulAlgo_t), SIZE(cublasLtMatmulHeuristicResult_t);
  OFFSET(cublasLtMatmulHeuristicResult_t, workspaceSize),
      OFFSET(cublasLtMatmulHeuristicResult_t, state);
  OFFSET(cublasLtMatmulHeuristicResult_t, wavesCount);
}
static void nccl(void) {
  NUMBER(NCCL_UNIQUE_ID_BYTES), NUMBER(NCCL_WIN_COLL_SYMMETRIC), NUMBER(NCCL_CTA_POLICY_EFFICIENCY);
  NUMBER(ncclSuccess), NUMBER(ncclUnhandledCudaError), NUMBER(ncclSystemError),
      NUMBER(ncclInternalError);
  NUMBER(ncclInvalidArgument), NUMBER(ncclInvalidUsage), NUMBER(ncclRemoteError),
      NUMBER(ncclInProgress);
  NUMBER(ncclInt8), NUMBER(ncclUint8), NUMBER(ncclInt32), NUMBER(ncclInt64), NUMBER(ncclFloat16);
  NUMBER(ncclFloat), NUMBER(ncclDouble), NUMBER(ncclBfloat16), NUMBER(ncclSum), NUMBER(ncclAvg);
  SIZE(ncclUniqueId), SIZE(ncclConfig_t), OFFSET(ncclConfig_t, blocking),
      OFFSET(ncclConfig_t, maxCTAs);
  OFFSET(ncclConfig_t, netName), OFFSET(ncclConfig_t, commName), OFFSET(ncclConfig_t, CTAPolicy);
  ncclConfig_t c = NCCL_CONFIG_INITIALIZER;
  NUMBER(c.magic), NUMBER(c.blocking), NUMBER(c.CTAPolicy), NUMBER(c.size);
}
/* Functions have the vendor's types: an assignment of another one does not compile. */
#define FUNCTION(f, ...)                                                                           \
  do {                                                                                             \
    __VA_ARGS__ = f;                                                                               \
    NUMBER(p != NULL);                                                                             \
  } while (0)
static void functions(void) {
  FUNCTION(cudaMalloc, cudaError_t(*p)(void **, size_t));
  FUNCTION(cudaMallocHost, cudaError_t(*p)(void **, size_t));
  FUNCTION(cudaMemcpyAsync,
           cudaError_t(*p)(void *, const void *, size_t, enum cudaMemcpyKind, cudaStream_t));
  FUNCTION(cudaMemsetAsync, cudaError_t(*p)(void *, int, size_t, cudaStream_t));
  FUNCTION(cudaMemGetInfo, cudaError_t(*p)(size_t *, size_t *));
  FUNCTION(cudaStreamCreateWithPriority, cudaError_t(*p)(cudaStream_t *, unsigned, int));
  FUNCTION(cudaStreamWaitEvent, cudaError_t(*p)(cudaStream_t, cudaEvent_t, unsigned));
  FUNCTION(cudaEventCreateWithFlags, cudaError_t(*p)(cudaEvent_t *, unsigned));
  FUNCTION(cudaEventRecord, cudaError_t(*p)(cudaEvent_t, cudaStream_t));
  FUNCTION(cudaEventElapsedTime, cudaError_t(*p)(float *, cudaEvent_t, cudaEvent_t));
  FUNCTION(cudaStreamBeginCapture, cudaError_t(*p)(cudaStream_t, enum cudaStreamCaptureMode));
  FUNCTION(cudaStreamEndCapture, cudaError_t(*p)(cudaStream_t, cudaGraph_t *));
  FUNCTION(cudaStreamIsCapturing, cudaError_t(*p)(cudaStream_t, enum cudaStreamCaptureStatus *));
  FUNCTION(cudaGraphInstantiate,
           cudaError_t(*p)(cudaGraphExec_t *, cudaGraph_t, unsigned long long));
  FUNCTION(cudaGraphLaunch, cudaError_t(*p)(cudaGraphExec_t, cudaStream_t));
  FUNCTION(cudaDeviceGetAttribute, cudaError_t(*p)(int *, enum cudaDeviceAttr, int));
  FUNCTION(cudaFuncSetAttribute, cudaError_t(*p)(const void *, enum cudaFuncAttribute, int));
  FUNCTION(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
           cudaError_t(*p)(int *, const void *, int, size_t));
  FUNCTION(cublasLtMatmulDescCreate,
           cublasStatus_t(*p)(cublasLtMatmulDesc_t *, cublasComputeType_t, cudaDataType_t));
  FUNCTION(cublasLtMatrixLayoutCreate, cublasStatus_t(*p)(cublasLtMatrixLayout_t *, cudaDataType_t,
                                                          uint64_t, uint64_t, int64_t));
  FUNCTION(cublasLtMatmul,
           cublasStatus_t(*p)(cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *,
                              cublasLtMatrixLayout_t, const void *, cublasLtMatrixLayout_t,
                              const void *, const void *, cublasLtMatrixLayout_t, void *,
                              cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *, size_t,
                              cudaStream_t));
  FUNCTION(ncclCommInitRankConfig,
           ncclResult_t(*p)(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *));
  FUNCTION(ncclCommGetAsyncError, ncclResult_t(*p)(ncclComm_t, ncclResult_t *));
  FUNCTION(ncclCommWindowRegister,
           ncclResult_t(*p)(ncclComm_t, void *, size_t, ncclWindow_t *, int));
  FUNCTION(ncclAllReduce, ncclResult_t(*p)(const void *, void *, size_t, ncclDataType_t,
                                           ncclRedOp_t, ncclComm_t, cudaStream_t));
  FUNCTION(ncclBroadcast, ncclResult_t(*p)(const void *, void *, size_t, ncclDataType_t, int,
                                           ncclComm_t, cudaStream_t));
}

int main(void) {
  runtime();
  cublaslt();
  nccl();
  functions();
  return 0;
}
