/** Choice of the forms that end the access of a person. */
import { CheckBox } from "./Components.tsx"

export const DeactivateToo = () => (
  <CheckBox name="deactivate" checked hint="Without this, the person can sign in again and use all rights of the role.">
    Deactivate the person too
  </CheckBox>
)
