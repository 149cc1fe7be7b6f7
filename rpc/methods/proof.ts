/** Merkle proofs (EIP-1186). */
import type { Block, BlockSelector, ChainView } from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { EMPTY_HASH, EMPTY_ROOT } from '../../engine/primitives/keccak.ts'
import { decodeRlp, readFixed, readList, readUint } from '../../engine/primitives/rlp.ts'
import { bytesToBigint } from '../../engine/primitives/words.ts'
import { readSlot } from '../../engine/state/read.ts'
import type { Proof } from '../../engine/storage/types.ts'
import { failed } from '../core/errors.ts'
import { address, blockId, hexText, quantityText } from '../json/codecs.ts'
import { textResult } from '../json/results.ts'
import { array, text } from '../json/schema.ts'
import { optional, param, poolMethod } from '../method/method.ts'
import { LATEST, resolveBlock } from '../method/resolve.ts'
import { KEY_CHARACTERS, slotKey } from './shared/slot-key.ts'
import { withTrie } from './shared/trie.ts'

const keysCodec = array(text('hex encoded slot', KEY_CHARACTERS), 'storageSlots', 'string')

export const eth_getProof = poolMethod({
  name: 'eth_getProof',
  about: { is: 'state', at: 2, isLocalOnly: true, needsTrie: true },
  summary:
    'An account and some of its slots with Merkle proofs against the state root of a canonical block.',
  runs: 'call',
  basis: 'about',
  cost: 5,
  weight: 5,
  params: [
    param('Address', address),
    param('Storage keys', keysCodec),
    optional('Block', blockId, LATEST),
  ],
  result: textResult('Account', { title: 'Account proof', type: 'object' }),
  async handler(context, who, texts, at) {
    const keys = texts.map(slotKey)
    const block = canonicalBlock(context.view, at)
    const slotKeys = keys.map(({ key }) => key)
    const proof = await withTrie(context, block, (trie) => trie.prove(who, slotKeys))
    const state = context.view.state(block)
    const slots = keys.map(({ key, length }, index) => {
      const keyText = length === 32 ? hexText(key) : quantityText(bytesToBigint(key))
      const value = quantityText(bytesToBigint(readSlot(state, who, key)))
      return `{"key":${keyText},"value":${value},"proof":${listText(proof.storageProofs[index]!)}}`
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

/** A block above canonical has no state root yet, so the canonical head replaces it. */
function canonicalBlock(view: ChainView, at: BlockSelector): Block {
  if ('flashblock' in at)
    throw failed('no proof at a flashblock, because it has no state root: name a block')
  const block = resolveBlock(view, at)
  if (block.number <= view.canonical.number && block.flashblockIndex === undefined) return block
  return resolveBlock(view, { hash: view.canonical.hash, requireCanonical: false })
}

/**
 * A missing account is returned as an empty one, as nodes of OP chains do; go-ethereum returns zero
 * hashes.
 */
function accountOf({ account }: Proof) {
  if (account === undefined)
    return { nonce: 0n, balance: 0n, storageRoot: EMPTY_ROOT, codeHash: EMPTY_HASH }
  const [nonce, balance, storageRoot, codeHash] = readList(decodeRlp(account))
  return {
    nonce: readUint(nonce!, 8),
    balance: readUint(balance!, 32),
    storageRoot: readFixed(storageRoot!, 32),
    codeHash: readFixed(codeHash!, 32),
  }
}

const listText = (nodes: readonly Bytes[]): string => `[${nodes.map(hexText).join(',')}]`
