/**
 * Worker side of responses that outlive a head: records the reads of a call that must report them.
 */
import type { ChainView } from '../../engine/chain/types.ts'
import { ReadSet } from '../../engine/state/reads.ts'
import type { CallState } from '../method/method.ts'

/** Recorder of one thread, which runs one call at a time. */
export class TrackedReads {
  readonly #reads: ReadSet

  /** @param max maximum accounts and slots of a call */
  constructor(max: number) {
    this.#reads = new ReadSet(max)
  }

  /** Runs a call and adds its reads to the reply, if they are known. */
  around<Reply extends object>(run: () => Reply | Promise<Reply>): Reply | Promise<Reply> {
    this.#reads.start()
    const running = run()
    return running instanceof Promise
      ? running.then((reply) => this.#withReads(reply))
      : this.#withReads(running)
  }
  /** Wraps a state so that the running call's reads are recorded. */
  recordingReads(state: CallState, view: ChainView): CallState {
    const reader = view.recordingReads(state.reader, this.#reads)
    return { ...state, reader, onFields: (fields) => this.#reads.fields(fields) }
  }

  #withReads<Reply extends object>(reply: Reply): Reply {
    return 'result' in reply || 'error' in reply ? { ...reply, reads: this.#reads.take() } : reply
  }
}
