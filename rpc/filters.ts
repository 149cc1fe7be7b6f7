/** Polling filters: eth_newFilter and its family. */
export interface Filters {
  readonly size: number
}
