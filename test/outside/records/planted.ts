/** These faults do not show in any view, receipt or promise: only responses are wrong. */
import type { Edit } from '../../kit/edits.ts'

export type PlantedResponse = {
  readonly name: string
  readonly edits: readonly Edit[]
  /** Some responses of these methods are wrong. */
  readonly methods: RegExp
}

export const PLANTED_RESPONSES: readonly PlantedResponse[] = [
  {
    name: 'a balance is a wei too high',
    edits: [
      {
        file: 'rpc/methods/accounts-state.ts',
        find: 'readAccount(resolveState(view, at), who)?.balance ?? 0n',
        replace: '(readAccount(resolveState(view, at), who)?.balance ?? 0n) + 1n',
      },
    ],
    methods: /eth_getBalance/,
  },
  {
    name: 'what a call returns lacks a byte',
    edits: [
      {
        file: 'rpc/methods/call.ts',
        find: "if (result.status === 'success') return result.output\n",
        replace: "if (result.status === 'success') return result.output.slice(0, -1)\n",
      },
    ],
    methods: /eth_call/,
  },
  {
    name: 'latest is the canonical block where it should be the complete one',
    edits: [
      {
        file: 'engine/chain/reader.ts',
        find: "latest: latest === 'canonical' ? canonical : complete",
        replace: 'latest: canonical',
      },
    ],
    methods: /./,
  },
]
