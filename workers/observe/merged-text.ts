/**
 * Merges the Prometheus texts of several threads. Each metric's lines are grouped under the first
 * text's help.
 */

const HELP = '# HELP '

/**
 * Merges metrics into one text.
 * @param texts Prometheus texts whose lines differ by labels
 */
export function mergedText(texts: readonly string[]): string {
  const [first = ''] = texts
  if (texts.length < 2) return first
  const families = new Map<string, string>()
  for (const text of texts)
    for (const family of text.split(`\n${HELP}`)) {
      const body = family.startsWith(HELP) ? family.slice(HELP.length) : family
      const name = body.slice(0, body.indexOf(' '))
      const known = families.get(name)
      const samples = samplesOf(body)
      if (known === undefined) families.set(name, body.trimEnd())
      else if (samples !== '') families.set(name, `${known}\n${samples}`)
    }
  return [...families.values()].map((body) => `${HELP}${body}\n`).join('\n')
}

/** Returns the sample lines of a metric, without its help and type. */
const samplesOf = (body: string): string =>
  body
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .slice(1)
    .join('\n')
