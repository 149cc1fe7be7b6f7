/** The state of a chain's first block as a diff from nothing. */
import type { GenesisAccount } from '../chainspec/types.ts'
import type { Bytes, Hex } from '../primitives/bytes.ts'
import { hexToBytes } from '../primitives/hex.ts'
import { EMPTY_HASH, keccak256 } from '../primitives/keccak.ts'
import { equalBytes, ZERO_32 } from '../primitives/words.ts'
import type { AccountChange, StateDiff } from '../state/diff.ts'

/** In the order of the allocation; slots that hold zero are left out. */
export function genesisDiff(alloc: ReadonlyMap<Hex, GenesisAccount>): StateDiff {
  return [...alloc].map(([address, account]) => allocated(hexToBytes(address), account))
}

function allocated(address: Bytes, account: GenesisAccount): AccountChange {
  const { nonce = 0n, balance, code, storage = [] } = account
  const hasCode = code !== undefined && code.length > 0
  return {
    address,
    before: undefined,
    after: { nonce, balance, codeHash: hasCode ? keccak256(code) : EMPTY_HASH },
    slots: storage
      .filter(({ value }) => !equalBytes(value, ZERO_32))
      .map(({ key, value }) => ({ key, before: ZERO_32, after: value })),
    code: hasCode ? code : undefined,
  }
}
