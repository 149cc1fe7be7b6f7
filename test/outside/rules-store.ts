/** These are the rules of append, persist, unwind and prune, and of the threads around them. */
import type { Edit } from '../kit/edits.ts'
import { pause } from '../kit/pause.ts'
import type { Rule } from './rule.ts'

const edit = (file: string, find: string, replace: string): Edit => ({
  file: `${file}.ts`,
  find,
  replace,
})

const PERSISTENCE = 'engine/storage/persistence/persistence-state'
const PERSIST = 'engine/storage/blocks/persist'
const UNWIND = 'engine/storage/blocks/unwind'
const RECOVER = 'engine/storage/blocks/recover'

export const STORE_RULES: readonly Rule[] = [
  {
    name: 'clearDead',
    rule: 'the row of a thread that has ended is cleared',
    edits: [
      edit('workers/thread/rows', '  clearThread(from.views, first + index)\n', ''),
      // Otherwise the next thread would take the row, and clear it with its first lease.
      edit(
        'workers/thread/rows',
        'words.length; index++)\n    if (Atomics.compareExchange(words, index, 0, thread) === 0) return first + index',
        `words.length; index++)
    if (Atomics.compareExchange(words, (index + thread) % words.length, 0, thread) === 0)
      return first + ((index + thread) % words.length)`,
      ),
    ],
    isStarving: true,
    expect: ['torture', 'model'],
  },
  {
    name: 'clearAfterExit',
    rule: 'the row of a thread is not cleared before its exit',
    edits: [
      edit(
        'test/torture/readers',
        '{ type Claims, releaseEnded }',
        '{ type Claims, POOL_ROW, releaseEnded }',
      ),
      edit(
        'test/torture/readers',
        'import { beatsOf, type',
        "import { clearThread } from '../../engine/views/arena.ts'\nimport { beatsOf, type",
      ),
      // The thread goes on reading, so that the leases it takes meanwhile are cleared as well.
      edit(
        'test/torture/readers',
        '    thread.isEnding = true\n    void thread.worker.terminate()\n',
        `    const row = this.#options.claims.words.indexOf(thread.id)
    for (let ms = 0; ms < 300 && row >= 0; ms += 2) {
      clearThread(this.#options.views, POOL_ROW + row)
      await sleep(2)
    }
    thread.isEnding = true
    void thread.worker.terminate()
`,
      ),
    ],
    expect: ['torture', 'model'],
  },
  {
    name: 'appendFirst',
    rule: 'a block is published as canonical only when it is durable',
    edits: [
      edit(
        'engine/sources/writer/submit',
        'import { appendOf,',
        "import { onAppended } from './appended.ts'\nimport { appendOf,",
      ),
      edit(
        'engine/sources/writer/submit',
        "    emit(state, {\n      type: 'persistence',\n      request: { type: 'append', block: appendOf(block), labelledHeads },\n    })\n",
        "    emit(state, {\n      type: 'persistence',\n      request: { type: 'append', block: appendOf(block), labelledHeads },\n    })\n    onAppended(state, block)\n",
      ),
      edit(
        'engine/sources/writer/responses',
        "      onAppended(state, expected(state, response.id, 'appended'))\n",
        '',
      ),
    ],
    race: [
      edit(
        PERSISTENCE,
        '        if (this.#unwind === undefined) return this.#commit(request)\n',
        `        ${pause(1, 800)}\n        if (this.#unwind === undefined) return this.#commit(request)\n`,
      ),
    ],
    expect: ['histories', 'model'],
  },
  {
    name: 'persistWordFirst',
    rule: 'the persisted-id word is set before the first write of a persist pass',
    edits: [
      edit(PERSISTENCE, '    this.#words.setPersistedId(block.id)\n', ''),
      edit(
        PERSISTENCE,
        '    this.#persisting = undefined\n    this.#isDirty = true\n',
        '    this.#persisting = undefined\n    this.#isDirty = true\n    this.#words.setPersistedId(block.id)\n',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'pair',
    rule: "a key's flat value and its history entry are in one batch",
    edits: [
      edit(
        PERSIST,
        '    for (const row of piece) putRow(batch, row, of)\n    batch.commit()\n',
        `    for (const half of ['flat', 'history']) {
      for (const row of piece) putRow(batch, row, of, half)
      batch.commit()
      ${pause(1, 10)}
      yield
    }
`,
      ),
      edit(
        PERSIST,
        'function putRow(batch: WriteBatch, { key, before, after }: DiffRow, of: OfRow): void {',
        'function putRow(batch: WriteBatch, { key, before, after }: DiffRow, of: OfRow, half: string): void {',
      ),
      edit(
        PERSIST,
        '  putFlat(batch, flat, { key, value: after })',
        "  if (half === 'flat') return putFlat(batch, flat, { key, value: after })",
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'prevStored',
    rule: 'previous values come from the appended diff',
    edits: [
      edit(PERSIST, 'putRow(batch, row, of)\n', 'putRow(batch, row, of, database)\n'),
      edit(
        PERSIST,
        'function putRow(batch: WriteBatch, { key, before, after }: DiffRow, of: OfRow): void {',
        'function putRow(batch: WriteBatch, { key, before, after }: DiffRow, of: OfRow, database: Database): void {',
      ),
      edit(
        PERSIST,
        'batch.put(history, withNumber(key, of.number, of.keys), before ?? NO_BYTES)',
        'batch.put(history, withNumber(key, of.number, of.keys), database.get(flat, key) ?? NO_BYTES)',
      ),
    ],
    expect: ['histories', 'model'],
  },
  {
    name: 'persistRepeated',
    rule: 'a persist pass that a kill cut restarts before anything is read',
    edits: [
      edit(
        RECOVER,
        '    repeatPersist(database, trie, blocks[0]!)\n    blocks = blocks.slice(1)\n',
        '',
      ),
    ],
    expect: ['histories', 'model'],
  },
  {
    name: 'persistUndone',
    rule: 'an unwind first undoes a persist pass that was started',
    edits: [
      edit(
        RECOVER,
        '  if (started !== undefined && !isOnChain(database, decodeHead(started), durable.hash))\n    unwindBlock(database)\n',
        '',
      ),
      edit(
        PERSISTENCE,
        "    const isStarted = this.#database.get('meta', META.persisting) !== undefined\n",
        '    const isStarted = false\n',
      ),
      edit(
        UNWIND,
        "  const started = database.get('meta', META.persisting)\n",
        '  const started = [].at(0)\n',
      ),
    ],
    expect: ['histories', 'model'],
  },
  {
    name: 'baseFromResponse',
    rule: "the base moves with the persistence thread's response, not with the persisted-id word",
    edits: [
      edit(
        'engine/views/publisher',
        '    const { arena, base } = this\n    const canonical = this.find(heads.canonical)\n',
        `    const { arena } = this
    const canonical = this.find(heads.canonical)
    let base: BlockHandle | undefined = canonical
    while (base !== undefined && base.id !== Atomics.load(arena.words, PERSIST)) base = base.parent
    base ??= this.base
`,
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'unwindFirst',
    rule: 'the unwind count moves before the first write of an unwind',
    edits: [
      edit(PERSISTENCE, '    this.#words.raiseUnwinds()\n', ''),
      edit(
        PERSISTENCE,
        '    this.#words.setPersistedId(toId)\n',
        '    this.#words.raiseUnwinds()\n    this.#words.setPersistedId(toId)\n',
      ),
    ],
    race: [edit(UNWIND, '  return parent\n', `  ${pause(1, 20)}\n  return parent\n`)],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'appendBeforeUnwind',
    rule: 'a new branch is durable before the old one is unwound',
    edits: [
      edit(
        PERSISTENCE,
        '    this.#makeDurable(append)\n',
        '    if (to === undefined) this.#makeDurable(append)\n',
      ),
      edit(
        PERSISTENCE,
        '    this.#trie.reload()\n',
        '    this.#makeDurable(append!)\n    this.#trie.reload()\n',
      ),
      edit(
        UNWIND,
        "  batch.put('meta', META.persistedHead, encodeHead(parent))\n",
        "  batch.put('meta', META.persistedHead, encodeHead(parent))\n  batch.put('meta', META.durableHead, encodeHead(parent))\n",
      ),
    ],
    expect: ['histories', 'model'],
  },
  {
    name: 'openUnwinds',
    rule: 'opening finishes an unwind',
    edits: [edit(RECOVER, '  leaveOtherBranch(database)\n  const trie', '  const trie')],
    expect: ['histories', 'model'],
  },
  {
    name: 'indexAtPersist',
    rule: 'index rows are written by the persist pass',
    edits: [
      edit(
        'engine/storage/blocks/append',
        '  encodePartialHeader,\n  numberThen,',
        '  encodePartialHeader,\n  encodeTransactionLocation,\n  numberThen,',
      ),
      edit(
        'engine/storage/blocks/append',
        "  batch.put('heights', numberThen(number, hash), NO_BYTES)\n",
        `  batch.put('heights', numberThen(number, hash), NO_BYTES)
  for (const [index, { hash: name }] of block.transactions.entries())
    batch.put('transactions', name, encodeTransactionLocation({ blockNumber: number, index }))
`,
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'wipe',
    rule: 'a storage wipe is written in full: a zero for every slot',
    edits: [
      edit(
        'engine/views/build',
        '    for (const slot of change.slots) {\n',
        '    for (const slot of after === undefined ? [] : change.slots) {\n',
      ),
      edit(
        'engine/state/encoded-diff',
        '    for (const at of slots[index]!)\n',
        '    for (const at of change.afterAt === undefined ? [] : slots[index]!)\n',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'pruneFirst',
    rule: 'the horizon is raised before history is pruned',
    edits: [
      edit(
        'engine/storage/blocks/prune',
        '    raiseOldest(number)\n    yield* pruneBlock(database, number)\n',
        `    yield* pruneBlock(database, number)\n    ${pause(1, 20)}\n    raiseOldest(number)\n`,
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'horizonDurable',
    rule: 'the horizon is durable before it is in memory',
    edits: [
      edit(
        'engine/storage/blocks/prune',
        `    if (number > store.oldestState()) {
      const batch = database.batch()
      batch.put('meta', META.oldest, encodeNumber(number))
      batch.commit({ isSynced: true })
    }
    raiseOldest(number)
    yield* pruneBlock(database, number)
`,
        `    raiseOldest(number)
    yield* pruneBlock(database, number)
    const batch = database.batch()
    batch.put('meta', META.oldest, encodeNumber(number))
    batch.commit({ isSynced: true })
`,
      ),
    ],
    expect: ['histories', 'model'],
  },
  {
    name: 'stampFirst',
    rule: 'stamps are written before the persistence thread responds',
    edits: [
      edit(
        PERSISTENCE,
        'this.#words.stamp(key, block.number)',
        'setTimeout(() => this.#words.stamp(key, block.number), 50)',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'canonicalCapacity',
    rule: 'a canonical block that finds no page takes the pages above canonical',
    edits: [
      edit(
        'engine/sources/writer/submit',
        'freeMemory(state, isCanonical ? state.chain.canonical : state.chain.complete)',
        'freeMemory(state, state.chain.complete)',
      ),
    ],
    expect: ['model'],
  },
  {
    name: 'submittedHeight',
    rule: 'nothing replaces a block that the persistence thread has taken',
    edits: [
      edit(
        'engine/sources/writer/writer-state',
        '[chain.canonical, submitted, found]',
        '[chain.canonical]',
      ),
    ],
    expect: ['model'],
  },
]
