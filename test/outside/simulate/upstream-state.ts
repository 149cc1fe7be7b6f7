/**
 * These are an upstream's responses about accounts, slots and code after a block, with and without
 * proofs.
 */
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes, quantity } from '../../../engine/primitives/hex.ts'
import { readAccount, readCode, readSlot } from '../../../engine/state/read.ts'
import type { TrueBlock, TrueChain } from './chain.ts'

export const STATE_METHODS: ReadonlySet<string> = new Set([
  ...(['eth_getProof', 'eth_getBalance', 'eth_getTransactionCount', 'eth_getCode'] as const),
  'eth_getStorageAt',
])

/** Makes a response; the block is the last parameter: a number, a tag, or an object with a hash. */
export function stateResponse(
  method: string,
  params: readonly unknown[],
  { chain, block }: { readonly chain: TrueChain; readonly block: TrueBlock },
): unknown {
  const address = bytesOf(params[0])
  const account = readAccount(block.state, address)
  switch (method) {
    case 'eth_getBalance':
      return quantity(account?.balance ?? 0n)
    case 'eth_getTransactionCount':
      return quantity(account?.nonce ?? 0n)
    case 'eth_getCode':
      return bytesToHex(readCode(block.state, address))
    case 'eth_getStorageAt':
      return bytesToHex(readSlot(block.state, address, bytesOf(params[1])))
    default:
      return proofResponse(address, (params[1] as readonly unknown[]).map(bytesOf), {
        chain,
        block,
      })
  }
}

/** Makes a proof, of which the node reads only the trie nodes. */
function proofResponse(
  address: Bytes,
  keys: readonly Bytes[],
  { chain, block }: { readonly chain: TrueChain; readonly block: TrueBlock },
) {
  const { accountProof, storageProofs } = chain.prove(block, address, keys)
  return {
    accountProof: accountProof.map(bytesToHex),
    storageProof: storageProofs.map((proof) => ({ proof: proof.map(bytesToHex) })),
  }
}

const bytesOf = (value: unknown): Bytes => hexToBytes(String(value) as `0x${string}`)
