/**
 * These are rules of the follower, each with the edits that switch it off; some history must
 * notice.
 */
import type { Edit } from '../../kit/edits.ts'

export type Mutant = {
  readonly name: string
  /** The statement that holds while the rule is on. */
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
    name: 'competingWaits',
    rule: 'a second payload does not replace that of another feed while that feed continues',
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
    rule: 'a right flashblock is news of its feed, even after a wrong one of the same index',
    edits: [
      edit(
        `${WRITER}/feeds`,
        '  if (!isOld) recordNews(run, { digest: packet.digest, nowMs: state.options.now() })\n',
        '  if (!isOld && index >= inRow) recordNews(run, { digest: packet.digest, nowMs: state.options.now() })\n',
      ),
    ],
  },
  {
    name: 'gapKeeps',
    rule: 'a gap keeps the executed flashblocks',
    edits: [
      edit(
        `${WRITER}/packets`,
        '  state.reportedGap = gap\n',
        '  state.reportedGap = gap\n  flush(state)\n',
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
    rule: 'every field of the header of a canonical block is compared',
    edits: [
      edit(
        `${WRITER}/checks`,
        "    differKnown('withdrawalsRoot', header.withdrawalsRoot, upstreamBlock.withdrawalsRoot) ??\n",
        '    undefined ??\n',
      ),
      edit(
        `${WRITER}/checks`,
        "    differKnown('blobGasUsed', header.blobGasUsed, upstreamBlock.blobGasUsed) ??\n",
        '    undefined ??\n',
      ),
      edit(
        `${WRITER}/checks`,
        "    differKnown('excessBlobGas', header.excessBlobGas, upstreamBlock.excessBlobGas) ??\n",
        '    undefined ??\n',
      ),
      edit(
        `${WRITER}/checks`,
        "    differKnown('requestsHash', header.requestsHash, upstreamBlock.requestsHash) ??\n    differKnown('hash', hash, upstreamBlock.hash)\n",
        '    (hash.length === 0 ? mismatch("hash", "", "") : undefined)\n',
      ),
    ],
  },
  {
    name: 'finalStays',
    rule: 'no block at or below finalized is replaced',
    edits: [
      edit(
        `${UPSTREAM}/ancestor-search`,
        'lowest !== undefined && lowest.number <= state.finalized',
        'lowest !== undefined && lowest.number < 0',
      ),
      edit(
        `${UPSTREAM}/ancestor-search`,
        'Math.max(state.finalized, oldestFork(state))',
        'oldestFork(state)',
      ),
      edit(
        `${UPSTREAM}/ancestor-search`,
        'oldestFork(state) + 1, state.finalized + 1)',
        'oldestFork(state) + 1)',
      ),
    ],
  },
  {
    name: 'duplicateIsSame',
    rule: 'a repeated flashblock counts as the same one',
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
    rule: 'equal zero hashes do not make two subblocks of an index the same one',
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
    rule: 'a flashblock with its hash and the same one without it are one flashblock',
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
    rule: 'roots that no hash covers are not used',
    edits: [
      edit(`${WRITER}/flashblocks`, 'isCovered ? delta : {}\n', 'isCovered ? delta : delta\n'),
    ],
  },
  {
    name: 'sumsAreCompared',
    rule: 'the sums that a flashblock states are compared with its execution',
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
    rule: 'a post-exec transaction that is stated again is not ignored',
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
    rule: 'refunds that are stated again replace the earlier ones and are not added to them',
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
    rule: 'a subblock that states no refunds has none, even after a subblock that states some',
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
    rule: 'the refund of a new transaction comes from the subblock that brings the transaction',
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
    rule: 'a block whose hash the next one names has the last stated post-exec transaction',
    edits: [
      edit(
        `${WRITER}/steps`,
        'isRight() && (await addRemainder(state, block, checkpoint))',
        'isRight()',
      ),
    ],
  },
  {
    name: 'wordHasLast',
    rule: 'a block that is named without a root has the last stated post-exec transaction',
    edits: [edit(`${WRITER}/ends`, '      if (!(await addPostExec(state, block))) continue\n', '')],
  },
  {
    name: 'endIsReported',
    rule: 'the transaction that an End adds is reported with the snapshot that makes it visible',
    edits: [
      edit(`${WRITER}/flashblocks`, '  if (postExec !== undefined)\n', '  if (startedMs < 0)\n'),
    ],
  },
  {
    name: 'refundsHaveNoHash',
    rule: 'roots of a flashblock with refunds are not used, because its hash is not compared',
    edits: [edit(`${WRITER}/flashblocks`, ' && delta.postExec === undefined\n', '\n')],
  },
  {
    name: 'restatedPromisesNothing',
    rule: 'a block that is executed again promises only what its newest subblock brings',
    edits: [
      edit(
        `${WRITER}/flashblocks`,
        '  await makeVisible(state, block, { packet, startedMs, from: visible.length })\n',
        '  await makeVisible(state, block, { packet, startedMs, from: 0 })\n',
      ),
    ],
  },
  {
    name: 'restatedIsWhole',
    rule: 'a block that is executed again has all of its earlier subblocks',
    edits: [
      edit(
        `${WRITER}/steps`,
        'of before.partialHeaders) {\n',
        'of before.partialHeaders.slice(0, 1)) {\n',
      ),
    ],
  },
  {
    name: 'sealedHasRefunds',
    rule: 'a canonical block is opened with its post-exec transaction',
    edits: [
      edit(
        `${WRITER}/checks`,
        '  postExec: postExecIn(upstreamBlock.transactions.at(-1)),\n',
        '  postExec: upstreamBlock.transactions.length < 0 ? postExecIn(upstreamBlock.transactions.at(-1)) : undefined,\n',
      ),
    ],
  },
  {
    name: 'endingSettles',
    rule: 'a request to an upstream of another chain is settled like any other',
    edits: [edit(`${UPSTREAM}/tracker`, '      goOnWithout(state, request)\n    }\n', '    }\n')],
  },
  {
    name: 'aheadIsCompared',
    rule: 'upstreams ahead of the followed one are asked whether they have its newest block',
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
    rule: 'the writer gets the blocks of a branch in order, the oldest first',
    edits: [
      edit(
        `${UPSTREAM}/ancestor-search`,
        '  for (const block of blocks) if (!send(state, block, source)) break\n',
        '  for (const block of blocks.toReversed()) if (!send(state, block, source)) break\n',
      ),
    ],
  },
  {
    name: 'marksAreOurs',
    rule: 'safe and finalized are blocks of the own chain, at or below its head',
    edits: [
      edit(
        `${UPSTREAM}/tracker`,
        '    point !== undefined && ownHash(state, point.number) === point.hash\n',
        '    point !== undefined\n',
      ),
      edit(
        `${WRITER}/writer-state`,
        '    safe: Math.min(labelledHeads.safe, canonical),\n    finalized: Math.min(labelledHeads.finalized, canonical),\n',
        '    ...labelledHeads,\n',
      ),
    ],
  },
  {
    name: 'startIsNotFinal',
    rule: 'a start makes no block final',
    edits: [
      edit(
        `${WRITER}/writer-state`,
        '    labelledHeads: options.hasLabelledHeads === true ? options.store.labelledHeads() : undefined,\n',
        '    labelledHeads: undefined,\n',
      ),
    ],
  },
  {
    name: 'finalIsStored',
    rule: 'safe and finalized are stored before they are visible, so a restart protects them',
    edits: [
      edit(
        `${WRITER}/writer-state`,
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
        `${WRITER}/submit`,
        "    emit(state, {\n      type: 'persistence',\n      request: { type: 'append', block: appendOf(block), labelledHeads },\n    })\n",
        "    emit(state, {\n      type: 'persistence',\n      request: { type: 'append', block: appendOf(block), labelledHeads },\n    })\n    onAppended(state, block)\n",
      ),
      edit(
        `${WRITER}/submit`,
        "import { checkHeader, type Mismatch, TYPE } from './checks.ts'\n",
        "import { checkHeader, type Mismatch, TYPE } from './checks.ts'\nimport { onAppended } from './appended.ts'\n",
      ),
      edit(
        `${WRITER}/responses`,
        "      onAppended(state, expected(state, response.id, 'appended'))\n",
        '',
      ),
    ],
  },
  {
    name: 'lostIsAHole',
    rule: 'an End proves nothing after its feed was disconnected during the payload',
    edits: [
      edit(
        `${WRITER}/feeds`,
        '  if (isConnected && !isResumed)\n    run.payloads = run.payloads.map((payload) => ({ ...payload, hasHole: true }))\n',
        '',
      ),
    ],
  },
  {
    name: 'lateFill',
    rule: 'a fetched value overwrites nothing and is not the value after an unpersisted block',
    edits: [
      edit(
        'storage/persistence/fills',
        '      const isKnown = found.get(latin1(key))! || hasHistory(this.#database, key)\n',
        '      const isKnown = hasHistory(this.#database, key) && found.size === 0\n',
      ),
      edit(
        'storage/persistence/fills',
        '    const value = first === undefined ? row.value : first.before.get(name)\n',
        '    const value = first === undefined ? row.value : (row.value ?? first.before.get(name))\n',
      ),
    ],
  },
  {
    name: 'noHole',
    rule: 'the hash of a block is taken from the next one only if no flashblock is missing',
    edits: [
      edit(
        `${WRITER}/ends`,
        '    state.early.size === 0 &&\n    !state.blocked.has(payload.payloadId) &&\n',
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
    rule: 'a client of the enriched feed is notified of removed blocks',
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
    rule: 'a client of the enriched feed gets the final header of each block',
    edits: [
      edit(
        `${WRITER}/changes`,
        '      if (isOther && parts.length === 0 && number > base) headers.push(encodedHeader(block))\n',
        '      if (isOther && parts.length < 0) headers.push(encodedHeader(block))\n',
      ),
    ],
  },
  {
    name: 'allIsTold',
    rule: 'a client of the enriched feed gets every change of the state',
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
    rule: 'a promise is kept only at its own position',
    edits: [
      edit(
        `${LEDGER}/outcomes`,
        "    return index === position ? 'kept' : 'reordered'\n",
        "    return position >= 0 ? 'kept' : 'reordered'\n",
      ),
    ],
  },
  {
    name: 'ownTransactions',
    rule: 'a flashblock promises the transactions that it brings',
    edits: [edit(`${WRITER}/promised`, 'position < from || !isSigned(', 'from < 0 || !isSigned(')],
  },
  {
    name: 'openAbove',
    rule: 'promises of heights above a shorter branch are open again',
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
    rule: 'an outcome is in the commit of the block that decides it',
    edits: [
      edit(
        'storage/persistence/persistence-state',
        '      this.ledger.decide(batch, block, isReorg)\n',
        '      const own = this.#database.batch()\n      this.ledger.decide(own, block, isReorg)\n      own.commit()\n',
      ),
      // A start would repair the ledger.
      edit(
        `${LEDGER}/ledger`,
        '    let isChanged = reopen(rows, batch, { from: durable + 1, atMs })\n',
        '    let isChanged = false\n',
      ),
    ],
  },
  {
    name: 'secondNoted',
    rule: 'a second payload of the height is noted beside the outcome',
    edits: [
      edit(`${LEDGER}/outcomes`, "      ...(hasTwo ? (['secondPayload'] as const) : []),\n", ''),
    ],
  },
  {
    name: 'emptyNoted',
    rule: 'a second payload without promises is noted too',
    edits: [
      edit(
        `${LEDGER}/ledger`,
        "    if (hasOtherPayload(this.#rows, visible)) this.#addCause(visible, 'secondPayload')\n",
        "    if (visible.number < 0 && hasOtherPayload(this.#rows, visible)) this.#addCause(visible, 'secondPayload')\n",
      ),
    ],
  },
  {
    name: 'takenBack',
    rule: 'an outcome that changes is no longer counted',
    edits: [
      edit(
        `${LEDGER}/outcomes`,
        '  ledger.count(old, { atMs, decidedAtMs: before.decidedAtMs })\n',
        '',
      ),
    ],
  },
]
