/** The third-party checker fb-coherence reads the heights by separate requests. */

/**
 * Whether the only violations come from the checker's own requests. On a busy machine the latest
 * block that the checker knows can be above the pending block that it knows. The checker then
 * requests logs of a backwards range.
 */
export function requestsBackwards(output: string): boolean {
  const violations = output.match(/^VIOLATION .*\n.*$/gm) ?? []
  return violations.length > 0 && violations.every((text) => BACKWARDS.test(text))
}
const BACKWARDS =
  /^VIOLATION logs-boundary: eth_getLogs over the boundary failed\n.*invalid block range params/
