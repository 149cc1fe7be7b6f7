/** Where a process is stopped: places of the source at which, when they are reached, the process kills itself by SIGKILL. */
import type { Edit } from '../../kit/edits.ts'

export type Point = {
  readonly name: string
  readonly file: string
  /** Text that stands in the file exactly once. */
  readonly find: string
  /** What stands there instead; `kill` is a statement that ends the process the nth time. */
  readonly replace: (kill: string, isNow: string) => string
  /** The kill comes at one of the first so many times, chosen by chance: about five seconds of load. */
  readonly times: number
}

/** The edit under which the process dies when the place is reached for the `nth` time in a thread, counted from 1. */
export function killAt({ file, find, replace }: Point, nth: number): Edit {
  const kill = `if ((globalThis.crashIn = (globalThis.crashIn ?? ${nth}) - 1) === 0) process.kill(process.pid, 'SIGKILL')`
  return { file, find, replace: replace(kill, `(globalThis.crashIn ?? ${nth}) === 1`) }
}

const APPEND = {
  file: 'engine/storage/blocks/append.ts',
  find: 'META.durableHead, encodeHead(block))\n  batch.commit()',
}
const FOLD = 'engine/storage/blocks/fold.ts'
const SEQUENCER = 'engine/sources/sequencer/sequencer.ts'
const JOURNAL = 'engine/storage/directory/journal.ts'

const after = (find: string) => ({ find, replace: (kill: string) => `${find}\n${kill}\n` })
const before = (find: string) => ({ find, replace: (kill: string) => `${kill}\n${find}` })

/** Reached by a development node under load. */
export const NODE_POINTS: readonly Point[] = [
  {
    ...{ name: 'append, before its commit', ...APPEND, times: 5 },
    replace: (kill) => APPEND.find.replace('batch.commit()', `${kill}\n  batch.commit()`),
  },
  { name: 'append, after its commit', ...APPEND, ...after(APPEND.find), times: 5 },
  {
    ...{ name: 'between append and publish', file: 'engine/sources/writer/appended.ts', times: 5 },
    ...before('state.options.publisher.answered(block.handle)'),
  },
  {
    ...{ name: 'fold, between slices of the state', file: FOLD, times: 5 },
    ...after('for (const row of piece) putRow(batch, row, of)\n    batch.commit()'),
  },
  {
    ...{ name: 'fold, between slices of the trie', file: FOLD, times: 5 },
    ...after('for (const write of piece) putNode(batch, write)\n    batch.commit()'),
  },
  {
    ...{ name: 'fold, before its last slice', file: FOLD, times: 5 },
    ...before('putIndexes(fold, batch)\n'),
  },
  {
    ...{ name: 'fold, after its last slice', file: FOLD, times: 5 },
    ...before('fold.trie.stored(fold.version)'),
  },
  {
    ...{ name: 'between journal and send', file: SEQUENCER, times: 25 },
    ...after('this.#log.append(number, packet, message)'),
  },
  {
    ...{ name: 'between send and seal', file: SEQUENCER, times: 5 },
    ...before('this.#sealed = payload.sealed()'),
  },
  {
    ...{ name: 'between journal and acknowledge', file: 'engine/txpool/txpool.ts', times: 30 },
    find: 'journal?.(transaction.raw)',
    replace: (kill) => `journal?.(transaction.raw)\nif (journal !== undefined) ${kill}\n`,
  },
  {
    ...{ name: 'inside a record of a journal', file: JOURNAL, times: 30 },
    find: 'const encoded = encodeRecord(record, size)',
    replace: (kill, isNow) =>
      `const encoded = encodeRecord(record, size)\nif (${isNow}) writeSync(file, encoded, 0, encoded.length >> 1)\n${kill}\n`,
  },
]

/** Reached while a node starts on what a kill has left. */
export const START_POINTS: readonly Point[] = [
  {
    ...{
      name: 'start, inside a fold that is repeated',
      file: 'engine/storage/blocks/recover.ts',
      times: 3,
    },
    find: 'foldBlock({ database, trie, version, block, diff }));',
    replace: (kill) => `foldBlock({ database, trie, version, block, diff })) ${kill};`,
  },
  {
    ...{ name: 'start, before a journal is replaced', file: JOURNAL, times: 1 },
    ...before('renameSync(next, path)'),
  },
  {
    ...{ name: 'start, after a journal is replaced', file: JOURNAL, times: 1 },
    ...after('renameSync(next, path)'),
  },
]

const UNFOLD = 'engine/storage/blocks/unfold.ts'
const PRUNE = 'engine/storage/blocks/prune.ts'

/** Reached by a keeper whose chain changes branches below the fold head. */
export const KEEPER_POINTS: readonly Point[] = [
  {
    ...{
      name: 'unfold, before its first block',
      file: 'engine/storage/keeper/state.ts',
      times: 6,
    },
    ...before('this.#words.raiseUnfolds()'),
  },
  {
    ...{ name: 'unfold, after a fold that was begun', file: UNFOLD, times: 3 },
    ...before('return foldHead\n'),
  },
  {
    ...{ name: 'unfold, between two blocks', file: UNFOLD, times: 20 },
    ...before('return parent\n'),
  },
  {
    ...{ name: 'unfold, after its last block', file: 'engine/storage/keeper/state.ts', times: 6 },
    ...before('this.#trie.reload()'),
  },
  {
    ...{ name: 'prune, of momentary headers', file: PRUNE, times: 10 },
    ...after("batch.delete('momentary', key.slice(8))\n    }\n    batch.commit()"),
  },
  {
    ...{ name: 'prune, of what unfolds need', file: PRUNE, times: 40 },
    ...after(
      "for (const column of ['headers', 'bodies', 'receipts'] as const) batch.delete(column, hash)\n      batch.delete('bodies', tailKey(hash))\n    }\n    batch.commit()",
    ),
  },
  {
    ...{ name: 'prune, after its horizon', file: PRUNE, times: 40 },
    ...before('raiseOldest(number)\n    yield*'),
  },
  {
    ...{ name: 'prune, of history', file: PRUNE, times: 40 },
    ...before("batch.put('meta', META.pruned, encodeNumber(number))"),
  },
]

const MIGRATE = 'engine/storage/directory/migrate.ts'
/** As often as there are slices, which depends on the directory. */
export const EACH_SLICE = Number.POSITIVE_INFINITY

/** Reached by the command that migrates a directory. */
export const MIGRATION_POINTS: readonly Point[] = [
  {
    ...{ name: 'migration, before its first slice', file: MIGRATE, times: 1 },
    ...before('runSlices(log, migration, to)\n      writeMarker'),
  },
  {
    ...{ name: 'migration, before the commit of a slice', file: MIGRATE, times: EACH_SLICE },
    ...before('batch.commit({ isSynced'),
  },
  {
    ...{ name: 'migration, between two slices', file: MIGRATE, times: EACH_SLICE },
    ...before("at = next ?? 'done'"),
  },
  {
    ...{ name: 'migration, before its end is marked', file: MIGRATE, times: 1 },
    ...after('runSlices(log, migration, to)\n      '),
  },
]

/** The format that never was becomes one that this build migrates from. */
export const WITH_OLDER_SCHEMA: Edit = {
  file: 'engine/storage/directory/migrations.ts',
  find: "  6: { text: 'checksums of state that was fetched', slice: () => undefined },\n}",
  replace:
    "  6: olderSchema,\n}\nimport { olderSchema } from '../../../test/fixtures/older-schema.ts'",
}
