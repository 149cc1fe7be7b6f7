/** Names of modules in what the compiler has emitted: it knows those of imports, and neither threads nor what is required. */

/** A relative name of a TypeScript file, as a literal. */
const RELATIVE = /(['"`])(\.{1,2}\/[^'"`\n]*)\.ts\1/g

/** With the file that the compiler makes in place of each. */
export const rewritten = (text: string): string => text.replace(RELATIVE, '$1$2.js$1')

/** Literals that name a TypeScript file still, wherever: one that is only an ending names none. */
export const leftovers = (text: string): string[] =>
  [...text.matchAll(/(['"`])([^'"`\n]*[\w-}]\.ts)\1/g)].map((match) => match[2]!)

/** Relative names of scripts, as literals. */
export const namedScripts = (text: string): string[] =>
  [...text.matchAll(/(['"`])(\.{1,2}\/[^'"`\n]*\.js)\1/g)].map((match) => match[2]!)
