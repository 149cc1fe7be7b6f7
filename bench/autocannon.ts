/** autocannon, which loads a server with requests, with types of what benchmarks use: it is installed when this module is loaded first. */
import { requireFrom } from '../test/kit/own-packages.ts'

type Request = {
  readonly method: 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}
type Options = {
  readonly url: string
  readonly connections: number
  /** Seconds. */
  readonly duration: number
}
type Result = { readonly '2xx': number; readonly non2xx: number; readonly errors: number }
type Autocannon = (
  options: Options & (Request | { readonly requests: readonly Request[] }),
) => Promise<Result>

export const autocannon = requireFrom(new URL('./', import.meta.url))('autocannon') as Autocannon
