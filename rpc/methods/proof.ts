/** Merkle proofs (EIP-1186). */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Block, BlockSelector, ChainView } from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { decodeRlp, readFixed, readList, readUint } from '../../engine/primitives/rlp.ts'
import { bytesToBigint, ZERO_32 } from '../../engine/primitives/words.ts'
import { readSlot } from '../../engine/state/read.ts'
import { ProofError, ProofRaceError } from '../../engine/storage/proof.ts'
import type { Proof } from '../../engine/storage/trie.ts'
import { onBlock } from '../basis.ts'
import { failed, timedOut } from '../errors.ts'
import { address, blockId, hexText, quantityText } from '../ethereum.ts'
import { LIMITS } from '../limits.ts'
import { type MethodContext, optional, param, poolMethod } from '../method.ts'
import { LATEST, resolveBlock } from '../resolve.ts'
import { textResult } from '../results.ts'
import { array, text } from '../schema.ts'
import { KEY_CHARACTERS, slotKey } from '../slot-key.ts'

/** Between two looks at a trie that a fold is writing to. */
const RETRY_MS = 5

const keysCodec = array(
  text('hex encoded slot', KEY_CHARACTERS),
  LIMITS.storageSlots.value,
  'string',
)

export const eth_getProof = poolMethod({
  name: 'eth_getProof',
  summary:
    'An account and some of its slots with Merkle proofs against the state root of a canonical block.',
  runs: 'call',
  basis: onBlock(2),
  cost: 5,
  params: [
    param('Address', address),
    param('Storage keys', keysCodec),
    optional('Block', blockId, LATEST),
  ],
  result: textResult('Account', { title: 'Account proof', type: 'object' }),
  async handler(context, who, texts, at) {
    const keys = texts.map(slotKey)
    const block = canonicalBlock(context.view, at)
    const proof = await proved(context, block, { address: who, keys: keys.map(({ key }) => key) })
    const state = context.view.state(block)
    const slots = keys.map(({ key, length }, index) => {
      const shown = length === 32 ? hexText(key) : quantityText(bytesToBigint(key))
      const value = quantityText(bytesToBigint(readSlot(state, who, key)))
      return `{"key":${shown},"value":${value},"proof":${listText(proof.storageProofs[index]!)}}`
    })
    const account = accountOf(proof)
    return (
      `{"address":${hexText(who)},"accountProof":${listText(proof.accountProof)},` +
      `"balance":${quantityText(account.balance)},"codeHash":${hexText(account.codeHash)},` +
      `"nonce":${quantityText(account.nonce)},"storageHash":${hexText(account.storageRoot)},` +
      `"storageProof":[${slots.join(',')}]}`
    )
  },
})

/** What is not canonical yet has no root: the canonical head stands for it. */
function canonicalBlock(view: ChainView, at: BlockSelector): Block {
  const block = resolveBlock(view, at)
  if (block.number <= view.canonical.number && block.flashblockIndex === undefined) return block
  return resolveBlock(view, { hash: view.canonical.hash, requireCanonical: false })
}

/** Begins again while folds come between. @throws {RpcError} */
async function proved(
  { view, limits, isExpired }: MethodContext,
  block: Block,
  wanted: { readonly address: Bytes; readonly keys: readonly Bytes[] },
): Promise<Proof> {
  const bounds = { blocks: limits.proofBlocks, bytes: limits.proofBytes }
  for (;;)
    try {
      return view.prove(block, wanted, bounds)
    } catch (error) {
      if (error instanceof ProofError) throw failed(error.message)
      if (!(error instanceof ProofRaceError)) throw error
      if (isExpired()) throw timedOut()
      await sleep(RETRY_MS)
    }
}

/** Hashes of an account that is not there are zero, as go-ethereum shows them. */
function accountOf({ account }: Proof) {
  if (account === undefined)
    return { nonce: 0n, balance: 0n, storageRoot: ZERO_32, codeHash: ZERO_32 }
  const [nonce, balance, storageRoot, codeHash] = readList(decodeRlp(account))
  return {
    nonce: readUint(nonce!, 8),
    balance: readUint(balance!, 32),
    storageRoot: readFixed(storageRoot!, 32),
    codeHash: readFixed(codeHash!, 32),
  }
}

const listText = (nodes: readonly Bytes[]): string => `[${nodes.map(hexText).join(',')}]`
