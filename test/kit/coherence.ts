/** The third-party checker fb-coherence, which knows the heights by separate answers. */

/**
 * Whether the checker's own questions are all that went wrong: on a busy machine the latest block
 * that it has heard of is above the pending one, and it asks for logs of a backwards range.
 */
export function asksBackwards(output: string): boolean {
  const violations = output.match(/^VIOLATION .*\n.*$/gm) ?? []
  return violations.length > 0 && violations.every((text) => BACKWARDS.test(text))
}
const BACKWARDS =
  /^VIOLATION logs-boundary: eth_getLogs over the boundary failed\n.*invalid block range params/
