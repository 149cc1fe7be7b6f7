/** Controls of a development chain as functions. */
import type { Feed, FlashblockPosition, Head, Hex, Provider } from './types.ts'

type WirePosition = { readonly number: Hex; readonly index: number }
type WireHead = { readonly number: Hex; readonly hash: Hex }

export function openFeed({ request }: Provider): Feed {
  const sendRequest = <Result>(method: string, ...params: readonly unknown[]) =>
    request<Result>({ method, params })
  const head = async (method: string): Promise<Head> => {
    const { number, hash } = await sendRequest<WireHead>(method)
    return { number: Number(number), hash }
  }
  const step = async (): Promise<FlashblockPosition> => {
    const { number, index } = await sendRequest<WirePosition>('dev_step')
    return { number: Number(number), index: Number(index) }
  }
  return {
    step,
    pause: () => head('dev_pause'),
    seal: () => head('dev_seal'),
    async resume() {
      await sendRequest('dev_resume')
    },
    async push(transactions = []) {
      const hashes: Hex[] = []
      for (const one of transactions)
        hashes.push(
          await (typeof one === 'string'
            ? sendRequest<Hex>('eth_sendRawTransaction', one)
            : sendRequest<Hex>('eth_sendTransaction', one)),
        )
      const first = await step()
      /*
       * Index 0 has only the sequencer's own transactions, so the pushed ones come one flashblock
       * later.
       */
      return { ...(first.index === 0 ? await step() : first), hashes }
    },
    reorg: (options = {}) => sendRequest('dev_reorg', options),
    equivocate: (options = {}) => sendRequest('dev_equivocate', options),
    async gap() {
      await sendRequest('dev_gap')
    },
    async silence(ms) {
      await sendRequest('dev_silence', { ms })
    },
  }
}
