/** Faults that no view, receipt or promise shows: answers alone are wrong. */
import type { Edit } from '../../kit/edits.ts'

export type PlantedAnswer = {
  readonly name: string
  readonly edits: readonly Edit[]
  /** Methods of which some are answered otherwise. */
  readonly methods: RegExp
}

export const PLANTED_ANSWERS: readonly PlantedAnswer[] = [
  {
    name: 'a balance is a wei too high',
    edits: [
      {
        file: 'rpc/methods/state.ts',
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
