/** Typed wrapper of RocksDB; the only file that imports the binding. */
/** Plain data: goes through workerData and messages. */
export type SharedDatabase = {
  readonly handle: bigint
  readonly columns: readonly string[]
  readonly gate: Int32Array<SharedArrayBuffer>
}
