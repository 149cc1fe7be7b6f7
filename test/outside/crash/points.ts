/** A point is a passage of the source at which the process kills itself by SIGKILL. */
import type { Edit } from '../../kit/edits.ts'

export type Point = {
  readonly name: string
  readonly file: string
  /** This text occurs in the file exactly once. */
  readonly find: string
  /** Makes the new text; `kill` is a statement that ends the process the nth time. */
  readonly replace: (kill: string, isNow: string) => string
  /** The kill comes at a random one of this many passes, which is about five seconds of load. */
  readonly times: number
}

/**
 * Makes the edit under which the process dies when a thread reaches the point the `nth` time,
 * counted from 1.
 */
export function killAt({ file, find, replace }: Point, nth: number): Edit {
  const kill = `if ((globalThis.crashIn = (globalThis.crashIn ?? ${nth}) - 1) === 0) process.kill(process.pid, 'SIGKILL')`
  return { file, find, replace: replace(kill, `(globalThis.crashIn ?? ${nth}) === 1`) }
}

const APPEND = {
  file: 'engine/storage/blocks/append.ts',
  find: 'META.durableHead, encodeHead(block))\n  batch.commit()',
}
const PERSIST = 'engine/storage/blocks/persist.ts'
const SEQUENCER = 'engine/sources/sequencer/sequencer.ts'
const JOURNAL = 'engine/storage/directory/journal.ts'

const after = (find: string) => ({ find, replace: (kill: string) => `${find}\n${kill}\n` })
const before = (find: string) => ({ find, replace: (kill: string) => `${kill}\n${find}` })

/** A development node under load reaches these points. */
export const NODE_POINTS: readonly Point[] = [
  {
    name: 'append, before its commit',
    ...APPEND,
    times: 5,
    replace: (kill) => APPEND.find.replace('batch.commit()', `${kill}\n  batch.commit()`),
  },
  { name: 'append, after its commit', ...APPEND, ...after(APPEND.find), times: 5 },
  {
    name: 'between append and publish',
    file: 'engine/sources/writer/appended.ts',
    times: 5,
    ...before('state.options.publisher.onResponse(block.handle)'),
  },
  {
    name: 'persist, between slices of the state',
    file: PERSIST,
    times: 5,
    ...after('for (const row of piece) putRow(batch, row, of)\n    batch.commit()'),
  },
  {
    name: 'persist, between slices of the trie',
    file: PERSIST,
    times: 5,
    ...after('for (const write of piece) putNode(batch, write)\n    batch.commit()'),
  },
  {
    name: 'persist, before its last slice',
    file: PERSIST,
    times: 5,
    ...before('putIndexes(job, batch)\n'),
  },
  {
    name: 'persist, after its last slice',
    file: PERSIST,
    times: 5,
    ...before('job.trie.stored(job.version)'),
  },
  {
    name: 'between journal and send',
    file: SEQUENCER,
    times: 25,
    ...after('this.#log.append(number, packet, message)'),
  },
  {
    name: 'between send and seal',
    file: SEQUENCER,
    times: 5,
    ...before('this.#sealed = payload.upstreamBlock()'),
  },
  {
    name: 'between journal and acknowledge',
    file: 'engine/txpool/txpool.ts',
    times: 30,
    find: 'journal?.(transaction.raw)',
    replace: (kill) => `journal?.(transaction.raw)\nif (journal !== undefined) ${kill}\n`,
  },
  {
    name: 'inside a record of a journal',
    file: JOURNAL,
    times: 30,
    find: 'const encoded = encodeRecord(record, size)',
    replace: (kill, isNow) =>
      `const encoded = encodeRecord(record, size)\nif (${isNow}) writeSync(file, encoded, 0, encoded.length >> 1)\n${kill}\n`,
  },
]

/** A node that starts on the remains of a kill reaches these points. */
export const START_POINTS: readonly Point[] = [
  {
    name: 'start, inside a persist pass that is repeated',
    file: 'engine/storage/blocks/recover.ts',
    times: 3,
    find: 'persistBlock({ database, trie, version, block, diff }));',
    replace: (kill) => `persistBlock({ database, trie, version, block, diff })) ${kill};`,
  },
  {
    name: 'start, before a journal is replaced',
    file: JOURNAL,
    times: 1,
    ...before('renameSync(next, path)'),
  },
  {
    name: 'start, after a journal is replaced',
    file: JOURNAL,
    times: 1,
    ...after('renameSync(next, path)'),
  },
]

const UNWIND = 'engine/storage/blocks/unwind.ts'
const PRUNE = 'engine/storage/blocks/prune.ts'

/**
 * A persistence thread whose chain changes branches below the persisted head reaches these points.
 */
export const PERSISTENCE_POINTS: readonly Point[] = [
  {
    name: 'unwind, before its first block',
    file: 'engine/storage/persistence/persistence-state.ts',
    times: 6,
    ...before('this.#words.raiseUnwinds()'),
  },
  {
    name: 'unwind, after a persist pass that was started',
    file: UNWIND,
    times: 3,
    ...before('return persistedHead\n'),
  },
  {
    name: 'unwind, between two blocks',
    file: UNWIND,
    times: 20,
    ...before('return parent\n'),
  },
  {
    name: 'unwind, after its last block',
    file: 'engine/storage/persistence/persistence-state.ts',
    times: 6,
    ...before('this.#trie.reload()'),
  },
  {
    name: 'prune, of partial headers',
    file: PRUNE,
    times: 10,
    ...after("batch.delete('momentary', key.slice(8))\n    }\n    batch.commit()"),
  },
  {
    name: 'prune, of undo data',
    file: PRUNE,
    times: 40,
    ...after(
      "for (const column of ['headers', 'bodies', 'receipts'] as const) batch.delete(column, hash)\n      batch.delete('bodies', tailKey(hash))\n    }\n    batch.commit()",
    ),
  },
  {
    name: 'prune, after its horizon',
    file: PRUNE,
    times: 40,
    ...before('raiseOldest(number)\n    yield*'),
  },
  {
    name: 'prune, of history',
    file: PRUNE,
    times: 40,
    ...before("batch.put('meta', META.pruned, encodeNumber(number))"),
  },
]

const MIGRATE = 'engine/storage/directory/migrate.ts'
/** The number of passes is the number of slices, which depends on the directory. */
export const EACH_SLICE = Number.POSITIVE_INFINITY

/** The command that migrates a directory reaches these points. */
export const MIGRATION_POINTS: readonly Point[] = [
  {
    name: 'migration, before its first slice',
    file: MIGRATE,
    times: 1,
    ...before('runSlices(log, migration, to)\n      writeMarker'),
  },
  {
    name: 'migration, before the commit of a slice',
    file: MIGRATE,
    times: EACH_SLICE,
    ...before('batch.commit({ isSynced'),
  },
  {
    name: 'migration, between two slices',
    file: MIGRATE,
    times: EACH_SLICE,
    ...before("at = next ?? 'done'"),
  },
  {
    name: 'migration, before its end is marked',
    file: MIGRATE,
    times: 1,
    ...after('runSlices(log, migration, to)\n      '),
  },
]

/** The edit makes the invented format one that this build migrates from. */
export const WITH_OLDER_SCHEMA: Edit = {
  file: 'engine/storage/directory/migrations.ts',
  find: "  6: { text: 'checksums of state that was fetched', slice: () => undefined },\n}",
  replace:
    "  6: olderSchema,\n}\nimport { olderSchema } from '../../../test/fixtures/older-schema.ts'",
}
