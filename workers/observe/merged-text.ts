/** Metrics of several threads as one text of Prometheus: each name has its lines together, under the first one's help. */

const HELP = '# HELP '

/** @param texts in the form of Prometheus; their lines differ by labels */
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

/** Without what says what they are. */
const samplesOf = (body: string): string =>
  body
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .slice(1)
    .join('\n')
