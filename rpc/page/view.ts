/**
 * Rendering functions of the page; only this module uses preact and htm. Values in a template are
 * always escaped as text.
 */
import htm from 'htm'
import * as preact from 'preact'
import * as hooks from 'preact/hooks'

export const html = htm.bind(preact.h)
export type View = ReturnType<typeof html> | string | number | null | undefined | readonly View[]
export const { render } = preact
export const { useEffect, useRef, useState } = hooks
