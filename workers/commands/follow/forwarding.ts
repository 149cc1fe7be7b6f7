/**
 * Requests to the follower's thread: calls that another node answers, and state that is fetched.
 */
import type { Forward, Forwarded, LazyState } from '../../../rpc/core/ports.ts'
import type { FromFollower, ToFollower } from '../../thread/follower-messages.ts'
import { createQuestions } from '../../thread/questions.ts'

type FollowerResponse = Extract<FromFollower, { readonly type: 'fetched' | 'forwarded' }>

export interface Forwarding {
  readonly forward: Forward
  readonly lazy: LazyState
  respond(response: FollowerResponse): void
}

/**
 * The thread has shorter timeouts of its own; this one is for a thread that has stopped responding.
 */
const TIMEOUT_MS = 60_000
const SILENT = `no answer within ${TIMEOUT_MS} ms`

export function createForwarding(post: (message: ToFollower) => void): Forwarding {
  const calls = createQuestions<Forwarded>(TIMEOUT_MS)
  const fetches = createQuestions<{ readonly failed?: string }>(TIMEOUT_MS)
  return {
    forward: {
      async forward(method, params, { to, client }) {
        const response = await calls.request((request) =>
          post({
            ...({ type: 'forward', request, method, to, client } as const),
            params: JSON.stringify(params),
          }),
        )
        return response ?? { silent: SILENT }
      },
    },
    lazy: {
      async fetch(keys, { for: what, client, signal }) {
        let onGone = () => {}
        const response = await fetches.request((request) => {
          post({
            ...({ type: 'fetch', request, keys, client } as const),
            for: what === 'caller' ? 'call' : what,
          })
          onGone = () => post({ type: 'cancel', request })
          signal.addEventListener('abort', onGone, { once: true })
        })
        signal.removeEventListener('abort', onGone)
        return response ?? { failed: SILENT }
      },
    },
    respond(response) {
      if (response.type === 'forwarded') calls.respond(response.request, response.response)
      else fetches.respond(response.request, response)
    },
  }
}
