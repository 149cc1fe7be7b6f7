/** The node of a record: its writer takes what the record has, and nobody else gives it anything. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { beginLazy, lazyDirectory } from '../../../engine/storage/lazy/begin.ts'
import type { Answerer } from '../../../rpc/seam/exchange.ts'
import type { ChainChoice } from '../../data/datadir.ts'
import type { Opened } from '../../data/open.ts'
import type { ConnectedSource, Role, SourceParts } from '../../node/role.ts'
import { StartError } from '../../process/context.ts'
import type { Head } from '../../record/lines.ts'

export type ReplayParts = {
  readonly head: Head
  readonly tape: Role['tape'] & { readonly type: 'replay' }
  /** It has stopped where it was to stop; then requests are answered from there. */
  readonly over: Promise<void>
  /** What answers clients, before anything is replayed. */
  readonly onAnswerer: (answer: Answerer) => void
  readonly isQuiet: boolean
}

export function replayRole(parts: ReplayParts): Role {
  const { head, tape, isQuiet } = parts
  return {
    chain: chainOf(head),
    async begin(opened) {
      begin(opened, head)
    },
    keys: [],
    readiness: { headMs: undefined, feedMs: undefined },
    mode: head.mode,
    legacyUrl: undefined,
    syncing: () => false,
    feeds: 0,
    ...{ tape, isQuiet, hidesBlocks: true },
    startSource({ keeper, writer }) {
      keeper.close()
      writer.close()
      return { connect: async (source) => connect(source, parts) }
    },
  }
}

function connect(
  { writer }: SourceParts,
  { head, over, onAnswerer }: Omit<ReplayParts, 'tape' | 'isQuiet'>,
): ConnectedSource {
  return {
    methods: [],
    async start(answer) {
      onAnswerer(answer)
      writer.post({ type: 'replay' })
    },
    caughtUp: over,
    banner: ({ name, chainId }) => `flashnode ${head.version} recorded: ${name} (${chainId})\n`,
    ...(head.start === undefined ? {} : { lazy: { fetch: async () => ({ failed: NOT_THERE }) } }),
  }
}
const NOT_THERE = 'the record has no such value: the node that was recorded has not read it'

/** @throws {StartError} {LazyStartError} {GenesisError} */
function begin({ database, chain, path }: Opened, { start }: Head): void {
  if (lazyDirectory(database).status !== 'empty')
    throw new StartError(`${path} holds a chain already: leave --datadir out, or give an empty one`)
  if (start === undefined) importGenesis(database, chain)
  else beginLazy(database, chain, start)
}

function chainOf({ chain, forkTimes }: Head): ChainChoice {
  const rest = { made: undefined, check() {} }
  if ('name' in chain) return { ...rest, choose: () => ({ name: chain.name, forkTimes }) }
  const folder = mkdtempSync(join(tmpdir(), 'flashnode-replay-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'genesis.json')
  writeFileSync(file, chain.genesis)
  return { ...rest, choose: () => ({ name: file, forkTimes }), file }
}
