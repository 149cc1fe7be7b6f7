/** Controls of a development chain, from the methods that take them to the sequencer and back. */
import type {
  Control,
  ControlAnswer,
  Controlled,
} from '../../../engine/sources/sequencer/controls.ts'
import type { Limits } from '../../../rpc/seam/limits.ts'
import type { ToSequencer } from '../../thread/messages.ts'
import type { Thread } from '../../thread/thread.ts'
import { createAsking } from './asking.ts'

export interface Controls {
  /** When it is done, and can be read. @throws {RpcError} */
  send(control: Control): Promise<Controlled>
  answer(answer: ControlAnswer): void
  /** Blocks do not come by themselves. */
  isPaused(): boolean
}

const RETRY_MS = 1_000
/** So many blocks take a busy machine less. */
const PATIENCE_MS = 120_000
const PATIENCE_BLOCKS = 1_000

export function createControls(
  sequencer: Pick<Thread<ToSequencer>, 'post'>,
  { controlsWaiting }: Pick<Limits, 'controlsWaiting'>,
): Controls {
  const asking = createAsking<{ readonly done: Controlled }>({
    most: controlsWaiting,
    patienceMs: PATIENCE_MS,
    full: 'too many controls wait (--limit-controls-waiting)',
    retryMs: RETRY_MS,
    late: 'it is not done yet',
  })
  let isPaused = false
  return {
    async send(control) {
      const { type } = control
      let isSent = false
      try {
        const answer = await asking.ask((request) => {
          isSent = true
          if (type === 'pause') isPaused = true
          sequencer.post({ type: 'control', request, control })
        }, patienceFor(control))
        return answer.done
      } finally {
        // By the order of answers, which is that of what is done: also where the sequencer waited in vain for the block before.
        if (isSent && (type === 'pause' || type === 'resume')) isPaused = type === 'pause'
      }
    },
    isPaused: () => isPaused,
    answer: asking.answer,
  }
}

const patienceFor = (control: Control): number =>
  control.type === 'mine' ? Math.max(1, control.blocks / PATIENCE_BLOCKS) : 1
