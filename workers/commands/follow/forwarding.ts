/** Questions to the follower's thread: calls that another node answers, and state that is fetched. */
import type { Forward, Forwarded, LazyState } from '../../../rpc/seam/ports.ts'
import type { FromFollower, ToFollower } from '../../thread/follower-messages.ts'
import { createQuestions } from '../../thread/questions.ts'

type Answer = Extract<FromFollower, { readonly type: 'fetched' | 'forwarded' }>

export interface Forwarding {
  readonly forward: Forward
  readonly lazy: LazyState
  answer(answer: Answer): void
}

/** The thread has its own bounds, which are shorter: this is for one that answers nothing any more. */
const PATIENCE_MS = 60_000
const SILENT = `no answer within ${PATIENCE_MS} ms`

export function createForwarding(post: (message: ToFollower) => void): Forwarding {
  const calls = createQuestions<Forwarded>(PATIENCE_MS)
  const fetches = createQuestions<{ readonly failed?: string }>(PATIENCE_MS)
  return {
    forward: {
      async forward(method, params, { to, client }) {
        const answer = await calls.ask((request) =>
          post({
            ...({ type: 'forward', request, method, to, client } as const),
            params: JSON.stringify(params),
          }),
        )
        return answer ?? { silent: SILENT }
      },
    },
    lazy: {
      async fetch(keys, { for: what, client, signal }) {
        let onGone = () => {}
        const answer = await fetches.ask((request) => {
          post({
            ...({ type: 'fetch', request, keys, client } as const),
            for: what === 'caller' ? 'call' : what,
          })
          onGone = () => post({ type: 'cancel', request })
          signal.addEventListener('abort', onGone, { once: true })
        })
        signal.removeEventListener('abort', onGone)
        return answer ?? { failed: SILENT }
      },
    },
    answer(answer) {
      if (answer.type === 'forwarded') calls.answer(answer.request, answer.answer)
      else fetches.answer(answer.request, answer)
    },
  }
}
