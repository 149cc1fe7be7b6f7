/** The controls of a development chain as functions. */
import type { Feed, Head, Hex, Place, Provider } from './types.ts'

type WirePlace = { readonly number: Hex; readonly index: number }
type WireHead = { readonly number: Hex; readonly hash: Hex }

export function openFeed({ request }: Provider): Feed {
  const ask = <Result>(method: string, ...params: readonly unknown[]) =>
    request<Result>({ method, params })
  const head = async (method: string): Promise<Head> => {
    const { number, hash } = await ask<WireHead>(method)
    return { number: Number(number), hash }
  }
  const step = async (): Promise<Place> => {
    const { number, index } = await ask<WirePlace>('dev_step')
    return { number: Number(number), index: Number(index) }
  }
  return {
    step,
    pause: () => head('dev_pause'),
    seal: () => head('dev_seal'),
    async resume() {
      await ask('dev_resume')
    },
    async push(transactions = []) {
      const hashes: Hex[] = []
      for (const one of transactions)
        hashes.push(
          await (typeof one === 'string'
            ? ask<Hex>('eth_sendRawTransaction', one)
            : ask<Hex>('eth_sendTransaction', one)),
        )
      const first = await step()
      // A block begins with what the sequencer itself puts into it.
      return { ...(first.index === 0 ? await step() : first), hashes }
    },
    reorg: (options = {}) => ask('dev_reorg', options),
    equivocate: (options = {}) => ask('dev_equivocate', options),
    async gap() {
      await ask('dev_gap')
    },
    async silence(ms) {
      await ask('dev_silence', { ms })
    },
  }
}
