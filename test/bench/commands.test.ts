/** The page of measurements must give the command of each benchmark. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

test('the table of commands has exactly the benchmarks of package.json', () => {
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as {
    readonly scripts: Readonly<Record<string, string>>
  }
  const [, table = ''] = readFileSync('bench/README.md', 'utf8').split('\n\n')
  expect(table).toMatch(/^\| command \|/)
  const named = [...table.matchAll(/`(?:npm run )?(bench[\w:-]*)`/g)].map(([, name]) => name!)
  const benchmarks = Object.keys(scripts).filter((name) => /^bench(:|$)/.test(name))
  expect(named.toSorted()).toEqual(benchmarks.toSorted())
})
