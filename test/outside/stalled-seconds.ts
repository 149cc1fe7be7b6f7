/** For how long nodes have stood still: what their limiters give back to everybody, so a check of exact points has to know of it. */

/** @param metrics where each node tells its metrics; of a node with several front threads all are counted */
export async function stalledSeconds(metrics: readonly string[]): Promise<number> {
  const texts = await Promise.all(metrics.map(async (url) => (await fetch(url)).text()))
  return texts
    .flatMap((text) => [
      ...text.matchAll(/^flashnode_front_stalled_seconds_total(?:\{.*\})? (\S+)$/gm),
    ])
    .reduce((sum, [, seconds]) => sum + Number(seconds), 0)
}
