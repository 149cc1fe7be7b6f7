/** Role of a replaying node: the recording is the only input of its writer. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { importGenesis } from '../../../engine/storage/blocks/genesis-import.ts'
import { lazyDirectory, startLazyState } from '../../../engine/storage/lazy/directory.ts'
import type { Responder } from '../../../rpc/core/exchange.ts'
import type { ChainChoice } from '../../data/datadir.ts'
import type { Opened } from '../../data/open.ts'
import type { ConnectedSource, Role, SourceParts } from '../../node/role.ts'
import { StartError } from '../../process/context.ts'
import type { Head } from '../../record/lines.ts'

export type ReplayParts = {
  readonly head: Head
  readonly recording: Role['recording'] & { readonly type: 'replay' }
  /**
   * Resolves when the replay has stopped at its end; requests are answered from that state
   * afterwards.
   */
  readonly over: Promise<void>
  /** Receives the function that answers requests, before the replay starts. */
  readonly onResponder: (respond: Responder) => void
  readonly isQuiet: boolean
}

export function replayRole(parts: ReplayParts): Role {
  const { head, recording, isQuiet } = parts
  return {
    chain: chainOf(head),
    async prepare(opened) {
      prepare(opened, head)
    },
    keys: [],
    readiness: { headMs: undefined, feedMs: undefined },
    mode: head.mode,
    forwardingUrl: undefined,
    syncing: () => false,
    feeds: 0,
    recording,
    isQuiet,
    hidesBlocks: true,
    startSource({ persistence, writer }) {
      persistence.close()
      writer.close()
      return { connect: async (source) => connect(source, parts) }
    },
  }
}

function connect(
  { writer }: SourceParts,
  { head, over, onResponder }: Omit<ReplayParts, 'recording' | 'isQuiet'>,
): ConnectedSource {
  return {
    methods: [],
    async start(respond) {
      onResponder(respond)
      writer.post({ type: 'replay' })
    },
    caughtUp: over,
    banner: ({ name, chainId }) => `flashnode ${head.version} recorded: ${name} (${chainId})\n`,
    ...(head.start === undefined ? {} : { lazy: { fetch: async () => ({ failed: NOT_THERE }) } }),
  }
}
const NOT_THERE = 'the recording lacks this state value, because the recorded node did not read it'

/** @throws {StartError} {LazyStartError} {GenesisError} */
function prepare({ database, chain, path }: Opened, { start }: Head): void {
  if (lazyDirectory(database).status !== 'empty')
    throw new StartError(`${path} already has a chain: leave out --datadir, or give an empty one`)
  if (start === undefined) importGenesis(database, chain)
  else startLazyState(database, chain, start)
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
