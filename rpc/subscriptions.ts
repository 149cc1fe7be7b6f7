/** eth_subscribe over WebSocket. */
export interface Subscriptions {
  readonly size: number
}
