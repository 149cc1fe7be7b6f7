/**
 * Finds module names in the compiler's output. The compiler rewrites the names in imports, but not
 * those of threads and of `require`.
 */

/** A relative name of a TypeScript file, as a literal. */
const RELATIVE = /(['"`])(\.{1,2}\/[^'"`\n]*)\.ts\1/g

/** Replaces each name by that of the compiled file. */
export const rewritten = (text: string): string => text.replace(RELATIVE, '$1$2.js$1')

/**
 * Lists literals that still name a TypeScript file. A literal that is only a file ending does not
 * count.
 */
export const leftovers = (text: string): string[] =>
  [...text.matchAll(/(['"`])([^'"`\n]*[\w-}]\.ts)\1/g)].map((match) => match[2]!)

/** Lists relative names of scripts in literals. */
export const namedScripts = (text: string): string[] =>
  [...text.matchAll(/(['"`])(\.{1,2}\/[^'"`\n]*\.js)\1/g)].map((match) => match[2]!)
