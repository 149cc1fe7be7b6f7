/** Decodes calldata of well-known functions; other calldata stays as it is. */

/** Signatures whose arguments take one word each. */
const FUNCTIONS: Readonly<Record<string, string>> = {
  '0xa9059cbb': 'transfer(address to, uint256 value)',
  '0x23b872dd': 'transferFrom(address from, address to, uint256 value)',
  '0x095ea7b3': 'approve(address spender, uint256 value)',
  '0x70a08231': 'balanceOf(address owner)',
  '0xdd62ed3e': 'allowance(address owner, address spender)',
  '0x18160ddd': 'totalSupply()',
  '0x313ce567': 'decimals()',
  '0x06fdde03': 'name()',
  '0x95d89b41': 'symbol()',
  '0xd0e30db0': 'deposit()',
  '0x2e1a7d4d': 'withdraw(uint256 value)',
  '0x40c10f19': 'mint(address to, uint256 value)',
  '0x42842e0e': 'safeTransferFrom(address from, address to, uint256 id)',
  '0xa22cb465': 'setApprovalForAll(address operator, bool approved)',
  '0x6352211e': 'ownerOf(uint256 id)',
  '0x0902f1ac': 'getReserves()',
  '0x022c0d9f': 'swap(uint256 amount0, uint256 amount1, address to, bytes data)',
  '0x38ed1739':
    'swapExactTokensForTokens(uint256 amountIn, uint256 amountOutMin, address[] path, address to, uint256 deadline)',
  '0x128acb08':
    'swap(address recipient, bool zeroForOne, int256 amount, uint160 limit, bytes data)',
  '0xac9650d8': 'multicall(bytes[] calls)',
  '0x82ad56cb': 'aggregate3((address,bool,bytes)[] calls)',
  '0x252dba42': 'aggregate((address,bytes)[] calls)',
  '0x440a5e20': 'setL1BlockValuesEcotone()',
  '0x098999be': 'setL1BlockValuesIsthmus()',
  '0x3db6be2b': 'setL1BlockValuesJovian()',
  '0xc2b3e5ac': 'initiateWithdrawal(address target, uint256 gasLimit, bytes data)',
  '0x8456cb59': 'pause()',
  '0x3f4ba83a': 'unpause()',
  '0x8da5cb5b': 'owner()',
  '0xf2fde38b': 'transferOwnership(address owner)',
  '0x5c60da1b': 'implementation()',
}

export type Decoded = {
  readonly name: string
  readonly args: readonly { readonly name: string; readonly value: string }[]
}

/** Decodes calldata; undefined for an unknown function or too short data. */
export function decodeCalldata(input: string): Decoded | undefined {
  const signature = FUNCTIONS[input.slice(0, 10).toLowerCase()]
  const parts = /^(\w+)\((.*)\)$/.exec(signature ?? '')
  if (parts === null) return undefined
  const [, name, list] = parts
  const params = list === '' ? [] : list!.split(', ').map((param) => param.split(' '))
  if (input.length < 10 + 64 * params.length) return undefined
  return {
    name: name!,
    args: params.map(([type, param], at) => ({
      name: param!,
      value: valueText(type!, input.slice(10 + 64 * at, 74 + 64 * at)),
    })),
  }
}

const NEGATIVE = 1n << 255n
function valueText(type: string, word: string): string {
  if (type === 'address') return `0x${word.slice(24)}`
  if (type === 'bool') return String(BigInt(`0x${word}`) !== 0n)
  if (!/^u?int\d+$/.test(type)) return '…'
  const value = BigInt(`0x${word}`)
  if (type.startsWith('int') && value >= NEGATIVE) return String(value - (1n << 256n))
  return value === (1n << 256n) - 1n ? 'max' : String(value)
}
