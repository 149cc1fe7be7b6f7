/**
 * Sends controls of a development chain from their methods to the sequencer and returns its
 * responses.
 */
import type {
  Control,
  Controlled,
  ControlResponse,
} from '../../../engine/sources/sequencer/controls.ts'
import type { Limits } from '../../../rpc/core/limits.ts'
import type { ToSequencer } from '../../thread/messages.ts'
import type { Thread } from '../../thread/thread.ts'
import { createBoundedRequests } from './bounded-requests.ts'

export interface Controls {
  /** Resolves when the control is done and its effect can be read. @throws {RpcError} */
  send(control: Control): Promise<Controlled>
  respond(response: ControlResponse): void
  /** True if blocks come only on request. */
  isPaused(): boolean
}

const RETRY_MS = 1_000
/** A busy machine makes this many blocks in less than the timeout. */
const TIMEOUT_MS = 120_000
const TIMEOUT_BLOCKS = 1_000

export function createControls(
  sequencer: Pick<Thread<ToSequencer>, 'post'>,
  { controlsWaiting }: Pick<Limits, 'controlsWaiting'>,
): Controls {
  const requests = createBoundedRequests<{ readonly done: Controlled }>({
    max: controlsWaiting,
    timeoutMs: TIMEOUT_MS,
    full: 'too many control requests wait (--limit-controls-waiting)',
    retryMs: RETRY_MS,
    late: 'timeout: the sequencer has not done this yet, and may still do it',
  })
  let isPaused = false
  return {
    async send(control) {
      const { type } = control
      let isSent = false
      try {
        const response = await requests.request((request) => {
          isSent = true
          if (type === 'pause') isPaused = true
          sequencer.post({ type: 'control', request, control })
        }, timeoutFor(control))
        return response.done
      } finally {
        /*
         * Responses arrive in the order in which the sequencer acts. The state is set even if the
         * sequencer waited in vain for the block before.
         */
        if (isSent && (type === 'pause' || type === 'resume')) isPaused = type === 'pause'
      }
    },
    isPaused: () => isPaused,
    respond: requests.respond,
  }
}

const timeoutFor = (control: Control): number =>
  control.type === 'mine' ? Math.max(1, control.blocks / TIMEOUT_BLOCKS) : 1
