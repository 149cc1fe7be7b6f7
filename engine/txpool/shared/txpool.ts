/**
 * A txpool that other threads read. Each call that changes it writes the shared memory before it
 * returns or throws.
 */
import { Txpool } from '../txpool.ts'
import type { PendingListener, TxpoolOptions } from '../types.ts'
import type { WaitingWriter } from './writer.ts'

export class SharedTxpool extends Txpool {
  readonly #writer: WaitingWriter

  constructor(options: Omit<TxpoolOptions, 'watcher'>, writer: WaitingWriter) {
    super({ ...options, watcher: writer })
    this.#writer = writer
  }

  override submit(...args: Parameters<Txpool['submit']>) {
    return this.#written(() => super.submit(...args))
  }
  override restore(...args: Parameters<Txpool['restore']>) {
    return this.#written(() => super.restore(...args))
  }
  override best(...args: Parameters<Txpool['best']>) {
    return this.#written(() => super.best(...args))
  }
  override rejected(...args: Parameters<Txpool['rejected']>) {
    return this.#written(() => super.rejected(...args))
  }
  override include(...args: Parameters<Txpool['include']>) {
    return this.#written(() => super.include(...args))
  }
  override rewind(...args: Parameters<Txpool['rewind']>) {
    return this.#written(() => super.rewind(...args))
  }
  override settle(...args: Parameters<Txpool['settle']>) {
    return this.#written(() => super.settle(...args))
  }

  /** The shared memory is written before listeners are notified. */
  override onPending(listener: PendingListener): () => void {
    return super.onPending((...announced) => {
      this.#writer.flush()
      listener(...announced)
    })
  }

  #written<T>(change: () => T): T {
    try {
      return change()
    } finally {
      this.#writer.flush()
    }
  }
}
