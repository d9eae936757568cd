// The journey with the Go client of openapi-generator.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"journey/api"
)

func check(holds bool, step string) {
	if !holds {
		fmt.Fprintln(os.Stderr, "failed:", step)
		os.Exit(1)
	}
	fmt.Println(step)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The typed body of a refusal.
func refusal[T any](err error) T {
	var refused *api.GenericOpenAPIError
	if !errors.As(err, &refused) {
		must(fmt.Errorf("no refusal: %v", err))
	}
	model, ok := refused.Model().(T)
	if !ok {
		must(fmt.Errorf("another refusal: %T", refused.Model()))
	}
	return model
}

func client(url string) *api.APIClient {
	configuration := api.NewConfiguration()
	configuration.Servers = api.ServerConfigurations{{URL: os.Getenv(url)}}
	return api.NewAPIClient(configuration)
}

func as(token string) context.Context {
	return context.WithValue(context.Background(), api.ContextAccessToken, os.Getenv(token))
}

func main() {
	project := os.Getenv("PROJECT")
	ampoule, reader, writer := client("AMPOULE_URL"), as("READ_TOKEN"), as("WRITE_TOKEN")

	injected, _, err := ampoule.SecretsAPI.SecretsInject(reader).ProjectId(project).Environment("development").Execute()
	must(err)
	check(injected.Values["DATABASE_URL"] == "postgres://db", "read an environment")

	capabilities, _, err := ampoule.CapabilitiesAPI.CapabilitiesRead(reader).Execute()
	must(err)
	check(capabilities.Limits.ExpectedVersion == 9007199254740991, "read 64 bits")

	var items []api.SecretListItem
	page, more := int32(1), true
	for more {
		answer, _, err := ampoule.SecretsAPI.SecretsList(reader).ProjectId(project).Environment("development").Page(page).PageSize(2).Execute()
		must(err)
		items, more, page = append(items, answer.Items...), answer.HasMore, page+1
	}
	check(len(items) == 5 && page == 4, "paged")

	body := api.NewCreateSecret(project, "development", "HOST")
	body.SetValue("x")
	body.SetKind(api.SECRETKIND_LITERAL)
	_, _, err = ampoule.SecretsAPI.SecretsCreate(reader).CreateSecret(*body).Execute()
	check(refusal[api.ForbiddenError](err).Code == "API_TOKEN_READ_ONLY", "met a typed 403")

	_, _, err = ampoule.SecretsAPI.SecretsCreate(writer).CreateSecret(*body).Execute()
	exists := refusal[api.ConflictError](err)
	update := api.NewUpdateSecret()
	update.SetValue("y")
	update.SetExpectedVersion(999)
	_, _, err = ampoule.SecretsAPI.SecretsUpdate(writer, items[0].Id).UpdateSecret(*update).Execute()
	conflict := refusal[api.ConflictError](err)
	check(exists.Code == "SECRET_ALREADY_EXISTS" && conflict.GetCurrentVersion() == 1, "met a typed 409")

	err = nil
	for tries := 0; tries < 2000 && err == nil; tries++ {
		_, _, err = ampoule.ProjectsAPI.ProjectsList(reader).Execute()
	}
	limited := refusal[api.TooManyRequestsError](err)
	time.Sleep(time.Duration(limited.GetRetryAfterSeconds()) * time.Second)
	_, _, err = ampoule.ProjectsAPI.ProjectsList(reader).Execute()
	must(err)
	check(true, "waited out a 429")

	later := client("LATER_URL")
	listed, _, err := later.SecretsAPI.SecretsList(writer).ProjectId(project).Environment("development").Execute()
	must(err)
	_, _, err = later.SecretsAPI.SecretsCreate(writer).CreateSecret(*body).Execute()
	check(listed.Items[0].Kind == "later-kind" && refusal[api.ConflictError](err).Code == "LATER_CODE", "read a later release")
	known, _, err := later.IdentityAPI.IdentityVerify(writer).Execute()
	must(err)
	capable, _, err := later.CapabilitiesAPI.CapabilitiesRead(writer).Execute()
	must(err)
	scopes := known.GetMcpScopes()
	check(capable.GetPlan() == "later-plan" && known.GetAccessLevel() == "later-level" && scopes[len(scopes)-1] == "later:scope", "read a later plan, level and scope")
}
