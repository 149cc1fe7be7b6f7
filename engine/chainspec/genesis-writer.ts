/** Writes the genesis.json of a development chain, for nodes that follow it. */
import type { Hex } from '../primitives/bytes.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { FORKS } from './forks.ts'
import type { ChainSpec, GenesisAccount } from './types.ts'

const quantity = (value: bigint | number): Hex => `0x${value.toString(16)}`

/**
 * Returns the text of a file from which `chainOfGenesis` makes the same chain. The chain needs its
 * allocation.
 */
export function genesisFileOf(chain: ChainSpec): string {
  const { genesisHeader: header, chainId, eip1559, blockTime, schedule } = chain
  const { gaslessContract } = chain.rulesAt(header.number, header.timestamp)
  const forks = FORKS.flatMap(({ name, config }) => {
    const at = schedule[name]
    return at === undefined ? [] : [[config, Number(at)] as const]
  })
  const file = {
    config: {
      chainId: Number(chainId),
      ...Object.fromEntries(forks),
      terminalTotalDifficulty: 0,
      optimism: {
        eip1559Denominator: Number(eip1559.denominator),
        eip1559DenominatorCanyon: Number(eip1559.denominator),
        eip1559Elasticity: Number(eip1559.elasticity),
      },
      flashnode: {
        blockTime,
        ...(gaslessContract === undefined ? {} : { gaslessContract: bytesToHex(gaslessContract) }),
      },
    },
    number: quantity(header.number),
    timestamp: quantity(header.timestamp),
    gasLimit: quantity(header.gasLimit),
    difficulty: quantity(header.difficulty),
    extraData: bytesToHex(header.extraData),
    coinbase: bytesToHex(header.coinbase),
    parentHash: bytesToHex(header.parentHash),
    baseFeePerGas: quantity(header.baseFeePerGas ?? 0n),
    alloc: Object.fromEntries(
      [...(chain.alloc ?? [])].map(([address, account]) => [address, accountOf(account)]),
    ),
  }
  return `${JSON.stringify(file, null, 2)}\n`
}

function accountOf({ balance, nonce, code, storage }: GenesisAccount) {
  return {
    balance: quantity(balance),
    ...(nonce === undefined ? {} : { nonce: quantity(nonce) }),
    ...(code === undefined ? {} : { code: bytesToHex(code) }),
    ...(storage === undefined
      ? {}
      : {
          storage: Object.fromEntries(
            storage.map(({ key, value }) => [bytesToHex(key), bytesToHex(value)]),
          ),
        }),
  }
}
