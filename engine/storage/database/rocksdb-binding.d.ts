/**
 * Native functions of @nxtedition/rocksdb 12.2.12 that the wrapper uses; the package ships no
 * types.
 */
declare module '@nxtedition/rocksdb/binding.js' {
  export interface Context {
    readonly context: unique symbol
  }
  export interface Column {
    readonly column: unique symbol
  }
  export interface Batch {
    readonly batch: unique symbol
  }
  export interface Cursor {
    readonly cursor: unique symbol
  }
  type Rows = { readonly rows: readonly (Buffer | undefined)[]; readonly finished: boolean }
  type Columns = Readonly<Record<string, Column>>
  type Done = (error: Error | null) => void
  interface Binding {
    db_init(pathOrHandle: string | bigint): Context
    /** A fresh path calls `done`; an attached handle returns the columns at once. */
    db_open(
      context: Context,
      options: object,
      done: (error: Error | null, columns?: Columns) => void,
    ): Columns | number
    db_close(context: Context, done: Done): void
    db_get_handle(context: Context): bigint
    db_get_location(context: Context): string
    db_get_many_sync(
      context: Context,
      keys: readonly Uint8Array[],
      options: object,
    ): (Buffer | undefined)[]
    db_clear(context: Context, options: object): void
    db_get_property(context: Context, name: string): string
    db_get_latest_sequence(context: Context): number
    iterator_init(context: Context, options: object): Cursor
    iterator_nextv_sync(cursor: Cursor, count: number): Rows
    iterator_close(cursor: Cursor): void
    batch_init(): Batch
    batch_put(batch: Batch, key: Uint8Array, value: Uint8Array, options: { column: Column }): void
    batch_merge(batch: Batch, key: Uint8Array, value: Uint8Array, options: { column: Column }): void
    batch_del(batch: Batch, key: Uint8Array, options: { column: Column }): void
    batch_write(context: Context, batch: Batch, options: { sync: boolean }): void
    batch_clear(batch: Batch): void
    batch_count(batch: Batch): number
  }
  const binding: Binding
  export default binding
}
