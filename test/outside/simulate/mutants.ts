/** Rules of the follower, each with the edits that switch it off: some history must notice. */
import type { Edit } from '../../kit/edits.ts'

export type Mutant = {
  readonly name: string
  /** What holds while it is on. */
  readonly rule: string
  readonly edits: readonly [Edit, ...Edit[]]
}

const edit = (file: string, find: string, replace: string): Edit => ({
  file: `engine/${file}.ts`,
  find,
  replace,
})
const WRITER = 'sources/writer'
const UPSTREAM = 'sources/upstream'
const LEDGER = 'storage/ledger'

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'rivalWaits',
    rule: 'a second payload does not drop what another feed has sent, while that feed goes on',
    edits: [
      edit(
        `${WRITER}/feeds`,
        '  return isConnected ? Math.max(0, newsAtMs + state.limits.cadenceMs - state.options.now()) : 0\n',
        '  return isConnected && newsAtMs < 0 ? 1 : 0\n',
      ),
    ],
  },
  {
    name: 'newsByBytes',
    rule: 'a wrong flashblock takes nothing from the right one of its index: that is news of its feed',
    edits: [
      edit(
        `${WRITER}/feeds`,
        '  if (!isOld) noteNews(run, { digest: packet.digest, nowMs: state.options.now() })\n',
        '  if (!isOld && index >= inRow) noteNews(run, { digest: packet.digest, nowMs: state.options.now() })\n',
      ),
    ],
  },
  {
    name: 'gapKeeps',
    rule: 'a gap keeps what was executed',
    edits: [
      edit(
        `${WRITER}/packets`,
        '  state.toldGap = gap\n',
        '  state.toldGap = gap\n  flush(state)\n',
      ),
      edit(
        `${WRITER}/packets`,
        '  heightsOf,\n  isReplaced,\n',
        '  flush,\n  heightsOf,\n  isReplaced,\n',
      ),
    ],
  },
  {
    name: 'wholeHeader',
    rule: 'the whole header of a canonical block is compared',
    edits: [
      edit(
        `${WRITER}/checks`,
        "    differKnown('withdrawalsRoot', header.withdrawalsRoot, sealed.withdrawalsRoot) ??\n",
        '    undefined ??\n',
      ),
      edit(
        `${WRITER}/checks`,
        "    differKnown('blobGasUsed', header.blobGasUsed, sealed.blobGasUsed) ??\n",
        '    undefined ??\n',
      ),
      edit(
        `${WRITER}/checks`,
        "    differKnown('excessBlobGas', header.excessBlobGas, sealed.excessBlobGas) ??\n",
        '    undefined ??\n',
      ),
      edit(
        `${WRITER}/checks`,
        "    differKnown('requestsHash', header.requestsHash, sealed.requestsHash) ??\n    differKnown('hash', hash, sealed.hash)\n",
        '    (hash.length === 0 ? mismatch("hash", "", "") : undefined)\n',
      ),
    ],
  },
  {
    name: 'finalStays',
    rule: 'nothing at or below finalized is ever replaced',
    edits: [
      edit(
        `${UPSTREAM}/branch`,
        'lowest !== undefined && lowest.number <= state.finalized',
        'lowest !== undefined && lowest.number < 0',
      ),
      edit(
        `${UPSTREAM}/branch`,
        'Math.max(state.finalized, oldestFork(state))',
        'oldestFork(state)',
      ),
      edit(
        `${UPSTREAM}/branch`,
        'oldestFork(state) + 1, state.finalized + 1)',
        'oldestFork(state) + 1)',
      ),
    ],
  },
  {
    name: 'duplicateIsSame',
    rule: 'the same flashblock again is no other one',
    edits: [
      edit(
        'flashblocks/sequence',
        "? 'duplicate' : 'equivocation'",
        "? 'equivocation' : 'equivocation'",
      ),
    ],
  },
  {
    name: 'zerosAreNoHash',
    rule: 'two zero hashes are not equal: another subblock of the same index is another one',
    edits: [
      edit(
        'flashblocks/sequence',
        'isSameFlashblock(taken, flashblock)',
        '((taken.delta.blockHash === undefined && flashblock.delta.blockHash === undefined) || isSameFlashblock(taken, flashblock))',
      ),
    ],
  },
  {
    name: 'hashIsNoName',
    rule: 'the same flashblock in both forms is one',
    edits: [
      edit(
        'flashblocks/sequence',
        'isSameFlashblock(taken, flashblock)',
        '(isSameFlashblock(taken, flashblock) && (taken.delta.blockHash === undefined) === (flashblock.delta.blockHash === undefined))',
      ),
    ],
  },
  {
    name: 'nameIsOfItsHeight',
    rule: 'without a trie, an index 0 of a wrong height does not give a block the hash of an ancestor',
    edits: [
      edit(
        `${WRITER}/ends`,
        '    if (isOfOtherHeight(state, block, packet.message.base!.parentHash)) continue\n',
        '    if (block.index < -9 && isOfOtherHeight(state, block, packet.message.base!.parentHash)) continue\n',
      ),
    ],
  },
  {
    name: 'zerosAreNotCompared',
    rule: 'a hash that is not stated is not compared',
    edits: [
      edit(
        `${WRITER}/flashblocks`,
        "differKnown('blockHash', headerSoFar(block, message).hash, delta.blockHash)",
        "(delta.blockHash === undefined ? differ : differKnown)('blockHash', headerSoFar(block, message).hash, delta.blockHash ?? ZERO_32)",
      ),
    ],
  },
  {
    name: 'rootsNeedHash',
    rule: 'roots that no hash covers are not taken over',
    edits: [
      edit(`${WRITER}/flashblocks`, 'isCovered ? delta : {}\n', 'isCovered ? delta : delta\n'),
    ],
  },
  {
    name: 'sumsAreCompared',
    rule: 'what a flashblock states is held against what was executed',
    edits: [
      edit(
        `${WRITER}/flashblocks`,
        '    checkDelta(execution.sums(), delta, isPlain) ??\n',
        '    (delta.blockHash === undefined ? undefined : checkDelta(execution.sums(), delta, isPlain)) ??\n',
      ),
    ],
  },
  {
    name: 'rootIsComputed',
    rule: 'the withdrawals root of a block is computed where its flashblocks state none',
    edits: [
      edit(
        `${WRITER}/ends`,
        '  const named = headerOf(partsOf(block), roots)\n',
        '  const named = headerOf(partsOf(block), { ...roots, ...(block.header.withdrawalsRoot === undefined ? {} : { withdrawalsRoot: block.header.withdrawalsRoot }) })\n',
      ),
    ],
  },
  {
    name: 'restatedIsTaken',
    rule: 'a post-exec transaction that is stated anew is not ignored',
    edits: [
      edit(`${WRITER}/steps`, '  return !isSame\n', '  return isSame && !isSame\n'),
      edit(
        `${WRITER}/flashblocks`,
        "  if (!execution.refund(postExec)) throw new Error('refunds of earlier transactions are others')\n",
        '  execution.refund(postExec)\n',
      ),
    ],
  },
  {
    name: 'refundsReplace',
    rule: 'refunds that are stated anew take the place of those before, and are not paid beside them',
    edits: [
      edit(
        `${WRITER}/steps`,
        '  const attributes = { ...open!.execution.attributes, postExec }\n',
        '  const old = new Map(open!.execution.attributes.postExec?.refunds.map(({ index, gasRefund }) => [index, gasRefund]))\n  const both = postExec && { ...postExec, refunds: postExec.refunds.map(({ index, gasRefund }) => ({ index, gasRefund: gasRefund + (old.get(index) ?? 0n) })) }\n  const attributes = { ...open!.execution.attributes, postExec: both }\n',
      ),
    ],
  },
  {
    name: 'absentIsNone',
    rule: 'a subblock that states no refunds has none, whatever the one before has stated',
    edits: [
      edit(
        `${WRITER}/steps`,
        'execution.refund(postExecIn(delta.postExec))',
        'execution.refund(postExecIn(delta.postExec) ?? postExec)',
      ),
      edit(
        `${WRITER}/flashblocks`,
        '  const postExec = postExecIn(delta.postExec)\n',
        '  const postExec = postExecIn(delta.postExec) ?? execution.attributes.postExec\n',
      ),
    ],
  },
  {
    name: 'newIsTaken',
    rule: 'refunds of new transactions are those of the subblock that brings them',
    edits: [
      edit(
        `${WRITER}/flashblocks`,
        "  if (!execution.refund(postExec)) throw new Error('refunds of earlier transactions are others')\n",
        "  if (index === 0 && !execution.refund(postExec)) throw new Error('refunds')\n",
      ),
    ],
  },
  {
    name: 'refundsAreNotCompared',
    rule: 'gas and receipts of a subblock with refunds are not compared',
    edits: [
      edit(
        `${WRITER}/flashblocks`,
        '  const isPlain = attributes.postExec === undefined\n',
        '  const isPlain = attributes !== undefined\n',
      ),
    ],
  },
  {
    name: 'restIsCompared',
    rule: 'logs and data gas of a subblock with refunds are compared',
    edits: [
      edit(
        `${WRITER}/checks`,
        "  return ofRun ?? differKnown('blobGasUsed', sums.blobGasUsed, delta.blobGasUsed)\n",
        "  return isPlain ? (ofRun ?? differKnown('blobGasUsed', sums.blobGasUsed, delta.blobGasUsed)) : undefined\n",
      ),
    ],
  },
  {
    name: 'lastIsAdded',
    rule: 'a block that is named has the post-exec transaction that was stated last',
    edits: [
      edit(
        `${WRITER}/steps`,
        'isRight() && (await addRest(state, block, checkpoint))',
        'isRight()',
      ),
    ],
  },
  {
    name: 'wordHasLast',
    rule: 'so has one that is named without a root',
    edits: [edit(`${WRITER}/ends`, '      if (!(await addPostExec(state, block))) continue\n', '')],
  },
  {
    name: 'endIsReported',
    rule: 'the transaction that an End adds is reported with the record that shows it',
    edits: [
      edit(`${WRITER}/flashblocks`, '  if (postExec !== undefined)\n', '  if (startedMs < 0)\n'),
    ],
  },
  {
    name: 'refundsHaveNoHash',
    rule: 'no root of a flashblock with refunds is taken over, because its hash is not compared',
    edits: [edit(`${WRITER}/flashblocks`, ' && delta.postExec === undefined\n', '\n')],
  },
  {
    name: 'restatedPromisesNothing',
    rule: 'a block that is executed again promises what its newest subblock brings, and nothing twice',
    edits: [
      edit(
        `${WRITER}/flashblocks`,
        '  await show(state, block, { packet, startedMs, from: shown.length })\n',
        '  await show(state, block, { packet, startedMs, from: 0 })\n',
      ),
    ],
  },
  {
    name: 'restatedIsWhole',
    rule: 'a block that is executed again has all of its earlier subblocks',
    edits: [
      edit(`${WRITER}/steps`, 'of before.momentary) {\n', 'of before.momentary.slice(0, 1)) {\n'),
    ],
  },
  {
    name: 'sealedHasRefunds',
    rule: 'a canonical block is opened with its post-exec transaction',
    edits: [
      edit(
        `${WRITER}/checks`,
        '  postExec: postExecIn(sealed.transactions.at(-1)),\n',
        '  postExec: sealed.transactions.length < 0 ? postExecIn(sealed.transactions.at(-1)) : undefined,\n',
      ),
    ],
  },
  {
    name: 'endingSettles',
    rule: 'a question that one of another chain answers is settled like any other',
    edits: [edit(`${UPSTREAM}/tracker`, '      goOnWithout(state, asked)\n    }\n', '    }\n')],
  },
  {
    name: 'aheadIsCompared',
    rule: 'upstreams that are ahead of the one that is followed say whether its newest block is theirs',
    edits: [
      edit(
        `${UPSTREAM}/tracker`,
        '  return state.sources.filter(isUsable).length > 2 ? tip.number : undefined\n',
        '  return state.sources.length < 0 ? tip.number : undefined\n',
      ),
    ],
  },
  {
    name: 'oldestFirst',
    rule: 'a branch goes to the writer oldest first',
    edits: [
      edit(
        `${UPSTREAM}/branch`,
        '  for (const block of blocks) if (!send(state, block, source)) break\n',
        '  for (const block of blocks.toReversed()) if (!send(state, block, source)) break\n',
      ),
    ],
  },
  {
    name: 'marksAreOurs',
    rule: 'safe and final are blocks of our chain, at most its head',
    edits: [
      edit(
        `${UPSTREAM}/tracker`,
        '    point !== undefined && ownHash(state, point.number) === point.hash\n',
        '    point !== undefined\n',
      ),
      edit(
        `${WRITER}/state`,
        '{ safe: Math.min(marks.safe, canonical), finalized: Math.min(marks.finalized, canonical) }',
        'marks',
      ),
    ],
  },
  {
    name: 'startIsNotFinal',
    rule: 'nothing becomes final by a start',
    edits: [
      edit(
        `${WRITER}/state`,
        '    marks: options.hasMarks === true ? options.store.marks() : undefined,\n',
        '    marks: undefined,\n',
      ),
    ],
  },
  {
    name: 'finalIsStored',
    rule: 'safe and final are visible only once they are stored: a start after a crash protects no other',
    edits: [
      edit(
        `${WRITER}/state`,
        'const all = [stored, ...submitted, wanted]',
        'const all = [stored, ...submitted, wanted].slice(-1)',
      ),
    ],
  },
  {
    name: 'durableFirst',
    rule: 'a block is canonical only when it is durable',
    edits: [
      edit(
        `${WRITER}/hand-over`,
        "    emit(state, { type: 'keeper', request: { type: 'append', block: appendOf(block), marks } })\n",
        "    emit(state, { type: 'keeper', request: { type: 'append', block: appendOf(block), marks } })\n    onAppended(state, block)\n",
      ),
      edit(
        `${WRITER}/hand-over`,
        "import { checkHeader, type Mismatch, TYPE } from './checks.ts'\n",
        "import { checkHeader, type Mismatch, TYPE } from './checks.ts'\nimport { onAppended } from './appended.ts'\n",
      ),
      edit(
        `${WRITER}/answers`,
        "      onAppended(state, expected(state, answer.id, 'appended'))\n",
        '',
      ),
    ],
  },
  {
    name: 'lostIsAHole',
    rule: 'what was sent while a feed was lost is missing: its End proves nothing',
    edits: [
      edit(
        `${WRITER}/feeds`,
        '  if (run.payload !== undefined && isConnected && !isResumed)\n    run.payload = { ...run.payload, hasHole: true }\n',
        '',
      ),
    ],
  },
  {
    name: 'lateFill',
    rule: 'what was fetched overwrites nothing, and is not the value after an unfolded block',
    edits: [
      edit(
        'storage/keeper/fills',
        '      const isKnown = found.get(latin1(key))! || hasHistory(this.#database, key)\n',
        '      const isKnown = hasHistory(this.#database, key) && found.size === 0\n',
      ),
      edit(
        'storage/keeper/fills',
        '    const value = first === undefined ? row.value : first.before.get(name)\n',
        '    const value = first === undefined ? row.value : (row.value ?? first.before.get(name))\n',
      ),
    ],
  },
  {
    name: 'noHole',
    rule: 'the hash of a block is taken from the next one only where nothing of it is missing',
    edits: [
      edit(
        `${WRITER}/ends`,
        '    state.early.size === 0 &&\n    !state.lane.has(payload.payloadId) &&\n',
        '',
      ),
      edit(`${WRITER}/ends`, '    before?.hasHole === false &&\n', ''),
      edit(
        `${WRITER}/ends`,
        '    before.inRow === payload.taken.length &&\n',
        '    payload.taken.length > 0 &&\n',
      ),
    ],
  },
  {
    name: 'removedIsTold',
    rule: 'whoever applies the enriched feed hears of blocks that are gone',
    edits: [
      edit(
        `${WRITER}/changes`,
        '  const end = firstGone < 0 ? blocks.length : firstGone\n',
        '  const end = firstGone < -1 ? firstGone : blocks.length\n',
      ),
    ],
  },
  {
    name: 'finalIsTold',
    rule: 'and of the final header of each block that it was told of',
    edits: [
      edit(
        `${WRITER}/changes`,
        '      if (isOther && parts.length === 0 && number > base) headers.push(toldHeader(block))\n',
        '      if (isOther && parts.length < 0) headers.push(toldHeader(block))\n',
      ),
    ],
  },
  {
    name: 'allIsTold',
    rule: 'and of every change of its state',
    edits: [edit(`${WRITER}/changes`, 'encodeDiff(diff)]', 'encodeDiff(diff.slice(1))]')],
  },
  {
    name: 'noTrace',
    rule: 'a flashblock that misses state leaves nothing behind',
    edits: [
      edit(
        `${WRITER}/flashblocks`,
        '      execution.revert(checkpoint)\n      execution.refund(postExec)\n',
        '',
      ),
      edit(
        `${WRITER}/flashblocks`,
        '        execution.revert(checkpoint)\n        const reader = await',
        '        const reader = await',
      ),
    ],
  },
  {
    name: 'samePlace',
    rule: 'a promise is kept at its place alone',
    edits: [
      edit(
        `${LEDGER}/fates`,
        "    return place === position ? 'kept' : 'reordered'\n",
        "    return position >= 0 ? 'kept' : 'reordered'\n",
      ),
    ],
  },
  {
    name: 'ownTransactions',
    rule: 'a flashblock promises what it brings',
    edits: [edit(`${WRITER}/promised`, 'position < from || !isSigned(', 'from < 0 || !isSigned(')],
  },
  {
    name: 'openAbove',
    rule: 'what a shorter branch leaves without a block is open again',
    edits: [
      edit(
        `${LEDGER}/ledger`,
        '    const isReopened = isReorg && reopen(',
        '    const isReopened = isReorg && number < 0 && reopen(',
      ),
    ],
  },
  {
    name: 'fateWithBlock',
    rule: 'a fate is in the commit of the block that decides',
    edits: [
      edit(
        'storage/keeper/state',
        '      this.ledger.decide(batch, block, isReorg)\n',
        '      const own = this.#database.batch()\n      this.ledger.decide(own, block, isReorg)\n      own.commit()\n',
      ),
      // A start would set it right.
      edit(
        `${LEDGER}/ledger`,
        '    let isChanged = reopen(rows, batch, { from: durable + 1, atMs })\n',
        '    let isChanged = false\n',
      ),
    ],
  },
  {
    name: 'secondNoted',
    rule: 'a second payload of the height is noted beside the fate',
    edits: [
      edit(`${LEDGER}/fates`, "      ...(hasTwo ? (['secondPayload'] as const) : []),\n", ''),
    ],
  },
  {
    name: 'emptyNoted',
    rule: 'a second payload that promises nothing is noted too',
    edits: [
      edit(
        `${LEDGER}/ledger`,
        "    if (hasOtherPayload(this.#rows, shown)) this.#note(shown, 'secondPayload')\n",
        "    if (shown.number < 0 && hasOtherPayload(this.#rows, shown)) this.#note(shown, 'secondPayload')\n",
      ),
    ],
  },
  {
    name: 'takenBack',
    rule: 'a fate that changes is not counted any more',
    edits: [
      edit(
        `${LEDGER}/fates`,
        '  ledger.count(old, { atMs, decidedAtMs: before.decidedAtMs })\n',
        '',
      ),
    ],
  },
]
