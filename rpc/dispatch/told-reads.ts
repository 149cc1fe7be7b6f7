/** The worker's side of answers that outlive a head: what the running call reads, where its reply shall say so. */
import type { ChainView } from '../../engine/chain/types.ts'
import { ReadSet } from '../../engine/state/reads.ts'
import type { CallState } from '../method/method.ts'

/** Of a thread, which runs one call after the other. */
export class ToldReads {
  readonly #reads: ReadSet

  /** @param most accounts and slots of a call */
  constructor(most: number) {
    this.#reads = new ReadSet(most)
  }

  /** Runs a call, whose reply says what was read, if that is known. */
  around<Reply extends object>(run: () => Reply | Promise<Reply>): Reply | Promise<Reply> {
    this.#reads.begin()
    const running = run()
    return running instanceof Promise
      ? running.then((reply) => this.#told(reply))
      : this.#told(running)
  }
  /** The same state for the running call. */
  noted(state: CallState, view: ChainView): CallState {
    const reader = view.noted(state.reader, this.#reads)
    return { ...state, reader, onFields: (fields) => this.#reads.fields(fields) }
  }

  #told<Reply extends object>(reply: Reply): Reply {
    return 'result' in reply || 'error' in reply ? { ...reply, reads: this.#reads.take() } : reply
  }
}
