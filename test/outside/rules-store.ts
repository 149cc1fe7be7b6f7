/** Rules of append, fold, unfold and prune, and of the threads around them. */
import type { Edit } from '../kit/edits.ts'
import { pause } from '../kit/pause.ts'
import type { Rule } from './rule.ts'

const edit = (file: string, find: string, replace: string): Edit => ({
  file: `${file}.ts`,
  find,
  replace,
})

const KEEPER = 'engine/storage/keeper/state'
const FOLD = 'engine/storage/blocks/fold'
const UNFOLD = 'engine/storage/blocks/unfold'
const RECOVER = 'engine/storage/blocks/recover'

export const STORE_RULES: readonly Rule[] = [
  {
    name: 'clearDead',
    rule: 'the row of a thread that has ended is cleared',
    edits: [
      edit('workers/thread/rows', '  clearThread(from.views, first + index)\n', ''),
      // The next thread would take the row, and clear it with its first lease.
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
      // It goes on reading: what it leases meanwhile is cleared as well.
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
        'engine/sources/writer/hand-over',
        'import { appendOf,',
        "import { onAppended } from './appended.ts'\nimport { appendOf,",
      ),
      edit(
        'engine/sources/writer/hand-over',
        "    emit(state, { type: 'keeper', request: { type: 'append', block: appendOf(block), marks } })\n",
        "    emit(state, { type: 'keeper', request: { type: 'append', block: appendOf(block), marks } })\n    onAppended(state, block)\n",
      ),
      edit(
        'engine/sources/writer/answers',
        "      onAppended(state, expected(state, answer.id, 'appended'))\n",
        '',
      ),
    ],
    race: [
      edit(
        KEEPER,
        '        if (this.#unfold === undefined) return this.#commit(request)\n',
        `        ${pause(1, 800)}\n        if (this.#unfold === undefined) return this.#commit(request)\n`,
      ),
    ],
    expect: ['histories', 'model'],
  },
  {
    name: 'foldWordFirst',
    rule: 'the fold word is set before the first write of a fold',
    edits: [
      edit(KEEPER, '    this.#words.setFold(block.id)\n', ''),
      edit(
        KEEPER,
        '    this.#fold = undefined\n    this.#isDirty = true\n',
        '    this.#fold = undefined\n    this.#isDirty = true\n    this.#words.setFold(block.id)\n',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'pair',
    rule: "a key's flat value and its history entry are in one batch",
    edits: [
      edit(
        FOLD,
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
        FOLD,
        'function putRow(batch: WriteBatch, { key, before, after }: DiffRow, of: OfRow): void {',
        'function putRow(batch: WriteBatch, { key, before, after }: DiffRow, of: OfRow, half: string): void {',
      ),
      edit(
        FOLD,
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
      edit(FOLD, 'putRow(batch, row, of)\n', 'putRow(batch, row, of, database)\n'),
      edit(
        FOLD,
        'function putRow(batch: WriteBatch, { key, before, after }: DiffRow, of: OfRow): void {',
        'function putRow(batch: WriteBatch, { key, before, after }: DiffRow, of: OfRow, database: Database): void {',
      ),
      edit(
        FOLD,
        'batch.put(history, withNumber(key, of.number, of.keys), before ?? NO_BYTES)',
        'batch.put(history, withNumber(key, of.number, of.keys), database.get(flat, key) ?? NO_BYTES)',
      ),
    ],
    expect: ['histories', 'model'],
  },
  {
    name: 'foldRepeated',
    rule: 'a fold that a kill cut is begun again before anything is read',
    edits: [
      edit(
        RECOVER,
        '    repeatFold(database, trie, blocks[0]!)\n    blocks = blocks.slice(1)\n',
        '',
      ),
    ],
    expect: ['histories', 'model'],
  },
  {
    name: 'foldUndone',
    rule: 'an unfold first takes out a fold that was begun',
    edits: [
      edit(
        RECOVER,
        '  if (started !== undefined && !isOnChain(database, decodeHead(started), durable.hash))\n    unfoldBlock(database)\n',
        '',
      ),
      edit(
        KEEPER,
        "    const isBegun = this.#database.get('meta', META.folding) !== undefined\n",
        '    const isBegun = false\n',
      ),
      edit(
        UNFOLD,
        "  const started = database.get('meta', META.folding)\n",
        '  const started = [].at(0)\n',
      ),
    ],
    expect: ['histories', 'model'],
  },
  {
    name: 'baseFromAnswer',
    rule: "the base moves with the keeper's answer, not with the fold word",
    edits: [
      edit(
        'engine/views/publisher',
        '    const { arena, base } = this\n    const canonical = this.find(heads.canonical)\n',
        `    const { arena } = this
    const canonical = this.find(heads.canonical)
    let base: BlockHandle | undefined = canonical
    while (base !== undefined && base.id !== Atomics.load(arena.words, FOLD)) base = base.parent
    base ??= this.base
`,
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'unfoldFirst',
    rule: 'the unfold count moves before the first write of an unfold',
    edits: [
      edit(KEEPER, '    this.#words.raiseUnfolds()\n', ''),
      edit(
        KEEPER,
        '    this.#words.setFold(toId)\n',
        '    this.#words.raiseUnfolds()\n    this.#words.setFold(toId)\n',
      ),
    ],
    race: [edit(UNFOLD, '  return parent\n', `  ${pause(1, 20)}\n  return parent\n`)],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'appendBeforeUnfold',
    rule: 'a new branch is durable before the old one is unfolded',
    edits: [
      edit(
        KEEPER,
        '    this.#makeDurable(append)\n',
        '    if (to === undefined) this.#makeDurable(append)\n',
      ),
      edit(
        KEEPER,
        '    this.#trie.reload()\n',
        '    this.#makeDurable(append!)\n    this.#trie.reload()\n',
      ),
      edit(
        UNFOLD,
        "  batch.put('meta', META.foldHead, encodeHead(parent))\n",
        "  batch.put('meta', META.foldHead, encodeHead(parent))\n  batch.put('meta', META.durableHead, encodeHead(parent))\n",
      ),
    ],
    expect: ['histories', 'model'],
  },
  {
    name: 'openUnfolds',
    rule: 'opening finishes an unfold',
    edits: [edit(RECOVER, '  leaveOtherBranch(database)\n  const trie', '  const trie')],
    expect: ['histories', 'model'],
  },
  {
    name: 'indexAtFold',
    rule: 'index rows are written by the fold',
    edits: [
      edit(
        'engine/storage/blocks/append',
        '  encodeNumber,\n  numberThen,',
        '  encodeNumber,\n  encodePlace,\n  numberThen,',
      ),
      edit(
        'engine/storage/blocks/append',
        "  batch.put('heights', numberThen(number, hash), NO_BYTES)\n",
        `  batch.put('heights', numberThen(number, hash), NO_BYTES)
  for (const [index, { hash: name }] of block.transactions.entries())
    batch.put('transactions', name, encodePlace({ blockNumber: number, index }))
`,
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'wipe',
    rule: 'a storage wipe is written out: a zero for every slot',
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
    rule: 'stamps are written before the keeper answers',
    edits: [
      edit(
        KEEPER,
        'this.#words.stamp(key, block.number)',
        'setTimeout(() => this.#words.stamp(key, block.number), 50)',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'canonicalRoom',
    rule: 'a canonical block that finds no page takes those above canonical',
    edits: [
      edit(
        'engine/sources/writer/hand-over',
        'freeMemory(state, isCanonical ? state.chain.canonical : state.chain.complete)',
        'freeMemory(state, state.chain.complete)',
      ),
    ],
    expect: ['model'],
  },
  {
    name: 'handedHeight',
    rule: 'nothing takes the place of a block that the keeper holds',
    edits: [
      edit('engine/sources/writer/state', '[chain.canonical, handed, found]', '[chain.canonical]'),
    ],
    expect: ['model'],
  },
]
