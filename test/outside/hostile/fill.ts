/** A node in use has its cache of values full. It fills to its bound whoever reads, so that it is no growth that an attack is to be blamed for. */

const CALLS = 24
/** What a call may have by default; a look at a cold account costs 2,624 with the loop around it. */
const GAS = 50_000_000

/** Looks at the balance of other accounts until its gas has gone: `GAS XOR prefix` is an address that nobody has looked at before. */
const programOf = (prefix: number) =>
  `0x5b5a73${prefix.toString(16).padStart(4, '0').padEnd(40, '0')}183150600056`

export async function fillStateCache(url: string): Promise<void> {
  for (let prefix = 1; prefix <= CALLS; prefix++) {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        ...{ jsonrpc: '2.0', id: prefix, method: 'eth_call' },
        params: [{ data: programOf(prefix), gas: `0x${GAS.toString(16)}` }, 'latest'],
      }),
    })
    const { error } = (await response.json()) as { error?: { message: string } }
    if (error?.message !== 'out of gas')
      throw new Error(`a call that fills the cache of values: ${error?.message ?? 'it ended'}`)
  }
}
